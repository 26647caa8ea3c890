#!/usr/bin/env bash
# Change the source of Linux that vcluster/kernel.sh builds: `vcluster/kernel-edits.sh SOURCE`.
#
# The folder of a kernel in the cache is named after this file and vcluster/uml.config, so a kernel
# without these changes is not used. Seen in Linux 6.1.176; each change fails if its place is gone.
set -euo pipefail

cd "$1"

edit() { # edit FILE EXPRESSION EXPECTED: a sed expression, and a line that is there afterwards
    sed -i -e "$2" "$1"
    grep -qF -- "$3" "$1" || {
        echo "kernel: $1 of this Linux does not have the place of a change: $3" >&2
        exit 1
    }
}

# Room for the vector registers of a process [B]. The host takes them back only whole, and Linux 6.1
# has room for 2696 B. A processor with AMX has 11008 B; on it the first process would end at once.
edit arch/x86/um/user-offsets.c 's/\(HOST_FP_SIZE, *\)2696)/\112288)/' '12288)'

# A packet on a tap raises SIGIO before epoll knows of it (tun_net_xmit). The handler then finds
# nothing, and no second signal comes: the packet lies there until the next one. So ask each network
# card whenever there was a signal, whatever epoll says. An unneeded question costs one system call.
irq=arch/um/kernel/irq.c
edit $irq '/^static void _sigio_handler/i\
static void ask_network_cards(struct uml_pt_regs *regs)\
{\
	struct irq_entry *entry, *next;\
\
	list_for_each_entry_safe(entry, next, \&active_fds, list) {\
		struct irq_reg *reg = \&entry->reg[IRQ_READ];\
\
		if (reg->events \&\& reg->irq >= VECTOR_BASE_IRQ \&\&\
		    reg->irq < VECTOR_BASE_IRQ + VECTOR_IRQ_SPACE)\
			irq_io_loop(reg, regs);\
	}\
}\
' 'static void ask_network_cards('
# A rank that polls for a message in its own memory makes no system call. If the packet woke a thread
# of the kernel (ksoftirqd), the thread would wait for the next tick of the clock: up to 10 ms. So
# stop the rank's process, as the tick does.
edit $irq '/^	_sigio_handler(regs, irqs_suspended);/c\
	_sigio_handler(regs, irqs_suspended);\
	if (!irqs_suspended)\
		ask_network_cards(regs);\
	if (need_resched() \&\& current->mm)\
		os_alarm_process(current->mm->context.id.u.pid);' 'ask_network_cards(regs);'

# A signal that comes after the last look for work, and before the idle processor sleeps, is noted
# only: the processor slept until the next timer. So look again while signals are blocked.
edit arch/um/os-Linux/signal.c '/^void block_signals(void)/i\
int signals_are_pending(void)\
{\
	return signals_pending != 0;\
}\
' 'int signals_are_pending(void)'
idle=arch/um/os-Linux/time.c
edit $idle '/^void os_idle_sleep(void)/i\
extern int signals_are_pending(void);\
' 'extern int signals_are_pending(void);'
edit $idle 's/^	sigaddset(&set, SIGALRM);/&\n	sigaddset(\&set, SIGIO);/' '(&set, SIGIO);'
edit $idle 's/^	if (its.it_value.tv_sec || its.it_value.tv_nsec)/	if (!signals_are_pending() \&\&\n	    (its.it_value.tv_sec || its.it_value.tv_nsec))/' \
    'if (!signals_are_pending() &&'

# The InfiniBand specification has no infinite number of retries (only of those for a receiver that
# is not ready). soft-RoCE takes 7, which UCX asks for, as infinite: a rank whose last packet was
# lost waited for ever for a peer that had ended.
edit drivers/infiniband/sw/rxe/rxe_comp.c \
    '/if (qp->comp.retry_cnt != 7)/{N;s/if (qp->comp.retry_cnt != 7)\n\t*qp->/qp->/}' \
    '				qp->comp.retry_cnt--;'
! grep -q 'comp.retry_cnt != 7' drivers/infiniband/sw/rxe/rxe_comp.c || {
    echo "kernel: soft-RoCE of this Linux still has an infinite number of retries" >&2
    exit 1
}
