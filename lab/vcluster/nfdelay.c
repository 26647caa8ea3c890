/* nfdelay QUEUE MICROSECONDS: hold each packet of a netfilter queue for a time, then let it pass.
 *
 * Only the number of a packet comes here, the packet itself stays in the kernel. First in, first
 * out, so order is kept. Ends on SIGTERM; rules with --queue-bypass then let packets through.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

enum { HELD = 65536 }; /* a power of two: the counters below may wrap */

static struct {
    uint32_t id;
    uint64_t due; /* ns, monotonic clock */
} held[HELD];
static unsigned first, next;
static uint64_t delay_ns;
static volatile sig_atomic_t ended;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int arrived(struct nfq_q_handle *queue, struct nfgenmsg *message, struct nfq_data *data,
                   void *unused)
{
    struct nfqnl_msg_packet_hdr *header = nfq_get_msg_packet_hdr(data);
    (void)queue, (void)message, (void)unused;
    if (header) {
        held[next % HELD].id = ntohl(header->packet_id);
        held[next % HELD].due = now() + delay_ns;
        next++;
    }
    return 0;
}

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

int main(int argc, char **argv)
{
    static char buffer[1 << 16];
    if (argc != 3) {
        fprintf(stderr, "usage: nfdelay QUEUE MICROSECONDS\n");
        return 2;
    }
    delay_ns = strtoull(argv[2], NULL, 10) * 1000u;
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGTERM, end);
    signal(SIGINT, end);

    struct nfq_handle *netfilter = nfq_open();
    if (!netfilter) {
        perror("nfdelay: nfq_open");
        return 1;
    }
    struct nfq_q_handle *queue = nfq_create_queue(netfilter, atoi(argv[1]), arrived, NULL);
    if (!queue) {
        perror("nfdelay: this queue cannot be had");
        return 1;
    }
    nfq_set_mode(queue, NFQNL_COPY_META, 0);
    nfq_set_queue_maxlen(queue, HELD / 2);
    /* Large packets as they are: split into 1500 B they would be 40 times as many. */
    nfq_set_queue_flags(queue, NFQA_CFG_F_GSO | NFQA_CFG_F_FAIL_OPEN,
                        NFQA_CFG_F_GSO | NFQA_CFG_F_FAIL_OPEN);
    int fd = nfq_fd(netfilter), room = 16 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);

    while (!ended) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        struct timespec until, *timeout = NULL;
        uint64_t time = now();
        while (first != next && held[first % HELD].due <= time) {
            nfq_set_verdict(queue, held[first % HELD].id, NF_ACCEPT, 0, NULL);
            first++;
        }
        if (first != next) {
            uint64_t left = held[first % HELD].due - time;
            until.tv_sec = (time_t)(left / 1000000000u);
            until.tv_nsec = (long)(left % 1000000000u);
            timeout = &until;
        }
        if (ppoll(&waiting, 1, timeout, NULL) > 0) {
            ssize_t size;
            while ((size = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
                nfq_handle_packet(netfilter, buffer, (int)size);
        }
    }
    nfq_destroy_queue(queue);
    nfq_close(netfilter);
    return 0;
}
