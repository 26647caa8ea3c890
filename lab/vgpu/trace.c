/* What a process did: events and bytes, written when it ends. Evidence is tested against this.
 *
 * One line for each kind of event: its name, a tab, how often, a tab, bytes. The first line says
 * that nothing in the file comes from a GPU.
 */
#include "node.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 256 };
static struct {
    const char *what;
    uint64_t times, bytes;
} kinds[KINDS];
static int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void trace(const char *what, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < known && strcmp(kinds[i].what, what) != 0)
        ++i;
    if (i == known && known < KINDS)
        kinds[known++].what = what;
    if (i < known) {
        ++kinds[i].times;
        kinds[i].bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void write_trace(void)
{
    const char *directory = getenv("GPUEMU_TRACE");
    if (!directory || !known)
        return;
    char name[4096], program[64] = "unknown";
    FILE *file = fopen("/proc/self/comm", "r");
    if (file && fgets(program, sizeof(program), file))
        program[strcspn(program, "\n")] = 0;
    if (file)
        fclose(file);
    snprintf(name, sizeof(name), "%s/%s.%d.trace", directory, program, getpid());
    file = fopen(name, "a"); /* a process may load two of the libraries */
    if (!file)
        return;
    fseek(file, 0, SEEK_END);
    if (ftell(file) == 0)
        fprintf(file, "# EMULATED: no GPU was here\n");
    for (int i = 0; i < known; ++i)
        fprintf(file, "%s\t%llu\t%llu\n", kinds[i].what, (unsigned long long)kinds[i].times,
                (unsigned long long)kinds[i].bytes);
    fclose(file);
}
