// SPDX-License-Identifier: GPL-2.0-only
/*
 * User contexts: handlers in user mode for what guests post.
 *
 * Where the hart that is told runs a guest, the handler interrupts it, in its own
 * address space, and KVM hears nothing of that. Elsewhere the event interrupts
 * this kernel, and a thread of the process, which waits in KVM_UCTX_RUN, runs the
 * handler. N of the context's control word is the token that says who runs it.
 *
 * A trap of a handler that has interrupted a guest comes here as if the guest had
 * exited: the handler is handed over to its thread, and the guest goes on.
 */

#include <linux/bitfield.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timex.h>
#include <asm/csr.h>
#include <asm/kvm_uctx.h>
#include <asm/kvm_vcpu_trapless.h>
#include <asm/kvm_vei.h>
#include <asm/xtrapless.h>

#include "uctx.h"

#define HSTATUS_HUR		BIT(HAIOV_HSTATUS_HUR_BIT)

/* ucause of a handler: user external interrupt */
#define UCTX_CAUSE		(CAUSE_IRQ_FLAG | 8)

/*
 * Of a CPU's guests, all handlers together may take this many cycles at once, and
 * half of the time in the long run (HCS-14, SHIFT = 0)
 */
#define UCTX_SHARE		(10 * UCTX_BUDGET)

static bool uctx = true;
module_param(uctx, bool, 0444);
MODULE_PARM_DESC(uctx, "Let user contexts interrupt guests if the harts can");

/* Registers have the same places there and in struct kvm_cpu_context */
static_assert(HAIOV_SAVE_X == sizeof(long) && HAIOV_SAVE_X_STRIDE == sizeof(long) &&
	      offsetof(struct kvm_cpu_context, t6) == HAIOV_SAVE_X_COUNT * sizeof(long));

DEFINE_STATIC_KEY_FALSE(kvm_riscv_uctx_available);

/* How long a token waits for a guest; far more than a switch to its thread takes */
#define UCTX_ROOM		ns_to_ktime(50 * NSEC_PER_USEC)

#define UCTX_NO_CPU		UINT_MAX

/*
 * After that long without anything to do, the thread sleeps. No timer is set: the
 * tick of a hart that is not idle ends the wait.
 */
#define UCTX_DOZE_US		200

/* Save area of each hart */
static DEFINE_PER_CPU(unsigned long, uctx_save);

/* IDs of contexts whose token waits for a guest to be entered, and for how long */
static DEFINE_PER_CPU(u64, uctx_later);
static DEFINE_PER_CPU(struct hrtimer, uctx_timer);
static DEFINE_PER_CPU(struct irq_work, uctx_work);

/* All contexts by their ID, for readers under RCU */
static struct kvm_uctx __rcu *uctx_table[KVM_RISCV_UCTX_MAX];
static DEFINE_MUTEX(uctx_mutex);

/* With RCU or a lock that keeps it from being freed. */
struct kvm_uctx *kvm_riscv_uctx_get(u32 id)
{
	return id < KVM_RISCV_UCTX_MAX ? rcu_dereference_check(uctx_table[id], 1) :
					 NULL;
}

static void uctx_drop_token(struct kvm_uctx *uctx)
{
	/* Ordered before the look at what is pending, as that of a post after it */
	atomic64_fetch_andnot(HAIOV_CONTEXT_CTL_N, &uctx->words->ctl);
}

/* The thread has something to do, and may not know. */
static void uctx_notify(struct kvm_uctx *uctx)
{
	struct task_struct *thread;

	/* It looks again before it sleeps */
	if (READ_ONCE(uctx->dozing) && READ_ONCE(uctx->thread) == current)
		return;
	rcuwait_wake_up(&uctx->wait);
	/* Pairs with that of uctx_doze(): it sees what there is to do, or this it */
	smp_mb();
	if (!READ_ONCE(uctx->dozing))
		return;
	/* It is not asleep: only an interrupt ends its WFI */
	rcu_read_lock();
	thread = READ_ONCE(uctx->thread);
	if (thread)
		kick_process(thread);
	rcu_read_unlock();
}

/* The thread has the token. */
static void uctx_wake(struct kvm_uctx *uctx)
{
	WRITE_ONCE(uctx->owned, true);
	uctx_notify(uctx);
}

/* Have handlers taken their share of this CPU? Then they are for threads. */
static bool uctx_share_is_full(void)
{
	return csr_read(CSR_HUCSHARE) & HAIOV_HUCSHARE_FULL;
}

/* Nobody has the token until this CPU enters a guest. Without preemption. */
static void uctx_wait_for_guest(u32 id)
{
	this_cpu_or(uctx_later, BIT_ULL(id));
	hrtimer_start(this_cpu_ptr(&uctx_timer), UCTX_ROOM,
		      HRTIMER_MODE_REL_PINNED_HARD);
}

/* An interrupt of this kernel: no guest could be interrupted. */
void kvm_riscv_uctx_told(u32 id)
{
	struct kvm_uctx *uctx;

	rcu_read_lock();
	uctx = kvm_riscv_uctx_get(id);
	/* There soon is one, or may be when the thread has gone to sleep */
	if (!uctx_share_is_full() &&
	    (kvm_in_run() || (uctx && READ_ONCE(uctx->thread) == current &&
			      !single_task_running())))
		uctx_wait_for_guest(id);
	else if (uctx)
		uctx_wake(uctx);
	rcu_read_unlock();
}

/* Tokens that wait for a guest on this CPU: it does not come. Without preemption. */
void kvm_riscv_uctx_flush(void)
{
	struct kvm_uctx *uctx;
	u64 later;

	if (likely(!this_cpu_read(uctx_later)))
		return;

	later = this_cpu_xchg(uctx_later, 0);
	rcu_read_lock();
	for (; later; later &= later - 1) {
		uctx = kvm_riscv_uctx_get(__ffs64(later));
		if (uctx)
			uctx_wake(uctx);
	}
	rcu_read_unlock();
}

static void uctx_flush_work(struct irq_work *work)
{
	kvm_riscv_uctx_flush();
}

/*
 * The vCPU leaves this CPU: its guest is not entered for now. Nothing is woken up
 * here, where the run queue may be locked.
 */
void kvm_riscv_vcpu_uctx_put(struct kvm_vcpu *vcpu)
{
	if (unlikely(this_cpu_read(uctx_later)))
		irq_work_queue(this_cpu_ptr(&uctx_work));
}

static enum hrtimer_restart uctx_timeout(struct hrtimer *timer)
{
	kvm_riscv_uctx_flush();

	return HRTIMER_NORESTART;
}

/* As if what is pending were posted now. The token must be nobody's. */
static void uctx_post_again(struct kvm_uctx *uctx)
{
	struct uctx_page *page = container_of(uctx->words, struct uctx_page,
					      words);
	u64 pending = atomic64_read(&uctx->words->pending);

	if (!pending)
		return;

	page->target = __pa(uctx->words);
	page->ctl = HAIOV_EVENT_CTL_V |
		    FIELD_PREP(HAIOV_EVENT_CTL_KIND, HAIOV_TARGET_CONTEXT) |
		    FIELD_PREP(HAIOV_EVENT_CTL_VECTOR, __ffs64(pending));
	kvm_riscv_vei_generate(__pa(&page->ctl));
}

/*
 * About to enter a guest, with interrupts disabled: handlers that wait for one
 * interrupt it at once.
 */
void kvm_riscv_vcpu_uctx_enter(struct kvm_vcpu *vcpu)
{
	struct kvm_uctx *uctx;
	u64 later;

	if (likely(!this_cpu_read(uctx_later)))
		return;
	if (uctx_share_is_full()) {
		kvm_riscv_uctx_flush();
		return;
	}

	later = this_cpu_xchg(uctx_later, 0);
	hrtimer_try_to_cancel(this_cpu_ptr(&uctx_timer));
	rcu_read_lock();
	for (; later; later &= later - 1) {
		uctx = kvm_riscv_uctx_get(__ffs64(later));
		if (!uctx)
			continue;
		uctx_drop_token(uctx);
		uctx_post_again(uctx);
	}
	rcu_read_unlock();
}

static void uctx_nothing(void *unused)
{
}

/* A handler that interrupts a guest now is handed over to its thread. */
void kvm_riscv_uctx_interrupt(void)
{
	on_each_cpu(uctx_nothing, NULL, 1);
}

/* Somebody else than a guest kicks. */
void kvm_riscv_uctx_post(struct kvm_uctx *uctx, unsigned int vector)
{
	atomic64_or(BIT_ULL(vector), &uctx->words->pending);
	uctx_notify(uctx);
}

/* Take the token for what is pending, if nobody has it. */
static bool uctx_take_token(struct kvm_uctx *uctx)
{
	return atomic64_read(&uctx->words->pending) &&
	       !(atomic64_fetch_or(HAIOV_CONTEXT_CTL_N, &uctx->words->ctl) &
		 HAIOV_CONTEXT_CTL_N);
}

/* Does the thread have something to do, and the token for it? */
static bool uctx_take(struct kvm_uctx *uctx)
{
	/* Pairs with the handing over of registers */
	if (smp_load_acquire(&uctx->owned))
		return true;
	if (!uctx_take_token(uctx))
		return false;
	uctx->owned = true;

	return true;
}

/* The handler is over. What was posted meanwhile is found by uctx_take(). */
static void uctx_give_back(struct kvm_uctx *uctx)
{
	unsigned long flags;

	uctx->started = false;
	raw_spin_lock_irqsave(&uctx->token, flags);
	uctx->owned = false;
	uctx_drop_token(uctx);
	raw_spin_unlock_irqrestore(&uctx->token, flags);
}

/* Returns false if there is nothing to do after all. */
static bool uctx_begin(struct kvm_uctx *uctx)
{
	struct kvm_cpu_context *cntx = &uctx->arch->guest_context;

	uctx->pending = atomic64_xchg(&uctx->words->pending, 0);
	if (!uctx->pending)
		return false;

	memset(cntx, 0, sizeof(*cntx));
	cntx->sepc = uctx->words->utvec;
	uctx->ustatus = HAIOV_USTATUS_UH | HAIOV_USTATUS_UPP;
	uctx->uscratch = uctx->words->uscratch;
	uctx->started = true;
	uctx->stats.begun++;

	return true;
}

static noinstr void uctx_switch_to(struct kvm_vcpu_arch *arch)
{
	guest_state_enter_irqoff();
	__kvm_riscv_switch_to(arch);
	guest_state_exit_irqoff();
}

/* Let the handler run in user mode until it traps. With interrupts disabled. */
static void uctx_enter(struct kvm_uctx *uctx, struct kvm_cpu_trap *trap)
{
	struct kvm_cpu_context *cntx = &uctx->arch->guest_context;
	unsigned long grant = 0;

	/* No floating point, as in a handler that interrupts a guest */
	cntx->sstatus = (csr_read(CSR_SSTATUS) & ~(SR_SPP | SR_FS | SR_VS)) |
			SR_SPIE;
	cntx->hstatus = (csr_read(CSR_HSTATUS) & ~HSTATUS_SPV) | HSTATUS_HUR;
	uctx->arch->guest_csr.scounteren = csr_read(CSR_SCOUNTEREN);

	csr_write(CSR_USTATUS, uctx->ustatus);
	csr_write(CSR_UTVEC, uctx->words->utvec);
	csr_write(CSR_USCRATCH, uctx->uscratch);
	csr_write(CSR_UEPC, 0);
	csr_write(CSR_UCAUSE, UCTX_CAUSE);
	csr_write(CSR_UTVAL, uctx->pending);
	csr_write(CSR_UTINST, 0);
	if (kvm_riscv_trapless_available())
		grant = csr_swap(CSR_HGRANT, READ_ONCE(uctx->words->grant));

	uctx_switch_to(uctx->arch);

	trap->sepc = cntx->sepc;
	trap->scause = csr_read(CSR_SCAUSE);
	trap->stval = csr_read(CSR_STVAL);
	uctx->ustatus = csr_read(CSR_USTATUS);
	uctx->uscratch = csr_read(CSR_USCRATCH);
	csr_write(CSR_USTATUS, 0);
	if (kvm_riscv_trapless_available())
		csr_write(CSR_HGRANT, grant);
}

static int uctx_page_fault(struct kvm_cpu_trap *trap)
{
	unsigned int flags = FAULT_FLAG_USER;
	int ret;

	if (trap->scause == EXC_STORE_PAGE_FAULT)
		flags |= FAULT_FLAG_WRITE;
	else if (trap->scause == EXC_INST_PAGE_FAULT)
		flags |= FAULT_FLAG_INSTRUCTION;

	mmap_read_lock(current->mm);
	ret = fixup_user_fault(current->mm, trap->stval, flags, NULL);
	mmap_read_unlock(current->mm);

	return ret;
}

/* Returns 1 if the handler goes on, 0 if it is over, -EIO if user space must know. */
static int uctx_handle(struct kvm_uctx *uctx, struct kvm_cpu_trap *trap)
{
	if (trap->scause & CAUSE_IRQ_FLAG)
		return 1;

	switch (trap->scause) {
	case HAIOV_CAUSE_HANDLER_END:
		return 0;
	case EXC_INST_PAGE_FAULT:
	case EXC_LOAD_PAGE_FAULT:
	case EXC_STORE_PAGE_FAULT:
		if (!uctx_page_fault(trap))
			return 1;
		break;
	}

	return -EIO;
}

/* Run the handler in this thread: 0 when it is over, -EINTR or -EIO. */
static int uctx_handler(struct kvm_uctx *uctx, struct kvm_cpu_trap *trap)
{
	bool enters;
	int ret;

	do {
		cond_resched();
		if (signal_pending(current))
			return -EINTR;

		/* What comes from here on interrupts the handler */
		preempt_disable();
		local_irq_disable();
		enters = !signal_pending(current) && !need_resched();
		if (enters)
			uctx_enter(uctx, trap);
		local_irq_enable();
		preempt_enable();

		ret = enters ? uctx_handle(uctx, trap) : 1;
	} while (ret > 0);

	return ret;
}

/* The hart that is told: where the thread is, unless user space has said it. */
static void uctx_aim(struct kvm_uctx *uctx)
{
	unsigned int cpu, before;
	unsigned long flags;
	s64 old, new;
	u64 where;

	/* Without preemption: pairs with the grace period of kvm_riscv_uctx_lost() */
	raw_spin_lock_irqsave(&uctx->token, flags);
	cpu = kvm_riscv_vei_open_cpu(uctx->cpu);
	where = FIELD_PREP(HAIOV_CONTEXT_CTL_HART, kvm_riscv_vei_hart(cpu));
	if (uctx->cpu == KVM_DEV_UCTX_CPU_OWN)
		where |= HAIOV_CONTEXT_CTL_OWN;
	/* Who posts is awake, and nobody is told while handlers may not begin */
	if (uctx->cpu == KVM_DEV_UCTX_CPU_OWN || !uctx->open)
		cpu = UCTX_NO_CPU;
	before = uctx->named;
	if (cpu != before && cpu != UCTX_NO_CPU)
		kvm_riscv_vei_name(cpu);

	old = atomic64_read(&uctx->words->ctl);
	do {
		new = (old & ~(HAIOV_CONTEXT_CTL_HART | HAIOV_CONTEXT_CTL_OWN)) |
		      where;
	} while (new != old &&
		 !atomic64_try_cmpxchg(&uctx->words->ctl, &old, new));

	if (cpu != before && before != UCTX_NO_CPU)
		kvm_riscv_vei_unname(before);
	uctx->named = cpu;
	raw_spin_unlock_irqrestore(&uctx->token, flags);
}

/* Handlers may begin from now on, on any CPU. */
static void uctx_open(struct kvm_uctx *uctx)
{
	/* Who unmaps memory of this process tells them all, also those that come */
	cpumask_or(mm_cpumask(current->mm), mm_cpumask(current->mm),
		   cpu_possible_mask);

	mutex_lock(&uctx->gate);
	WRITE_ONCE(uctx->words->suatp, csr_read(CSR_SATP));
	uctx->open = true;
	uctx_aim(uctx);
	atomic64_fetch_andnot(HAIOV_CONTEXT_CTL_M, &uctx->words->ctl);
	mutex_unlock(&uctx->gate);
}

/* No handler runs when this returns; one that ran has been handed over. */
static void uctx_close(struct kvm_uctx *uctx)
{
	mutex_lock(&uctx->gate);
	uctx->open = false;
	atomic64_fetch_or(HAIOV_CONTEXT_CTL_M, &uctx->words->ctl);
	uctx_aim(uctx);
	mutex_unlock(&uctx->gate);

	if (atomic64_read(&uctx->words->ctl) & HAIOV_CONTEXT_CTL_N &&
	    !READ_ONCE(uctx->owned))
		kvm_riscv_uctx_interrupt();
}

/* With the gate closed no token is given: one that nobody has then is lost. */
static void uctx_find_token(struct kvm_uctx *uctx)
{
	unsigned long flags;

	mutex_lock(&uctx->gate);
	atomic64_fetch_or(HAIOV_CONTEXT_CTL_M, &uctx->words->ctl);
	kvm_riscv_vei_sync();
	/* Queues, and handlers */
	kvm_riscv_vei_drain();
	raw_spin_lock_irqsave(&uctx->token, flags);
	/* If it is the thread's, it stays so */
	if (atomic64_read(&uctx->words->ctl) & HAIOV_CONTEXT_CTL_N)
		WRITE_ONCE(uctx->owned, true);
	raw_spin_unlock_irqrestore(&uctx->token, flags);
	uctx_aim(uctx);
	if (uctx->open)
		atomic64_fetch_andnot(HAIOV_CONTEXT_CTL_M, &uctx->words->ctl);
	mutex_unlock(&uctx->gate);
	uctx_notify(uctx);
}

/* Queues have been full or closed: who was to be told may not have been. */
void kvm_riscv_uctx_lost(void)
{
	struct kvm_uctx *uctx;
	u32 id;

	if (!kvm_riscv_uctx_available())
		return;

	/* Nobody names a CPU any more that he has seen before its queue was closed */
	synchronize_rcu();
	mutex_lock(&uctx_mutex);
	for (id = 0; id < KVM_RISCV_UCTX_MAX; id++) {
		uctx = kvm_riscv_uctx_get(id);
		if (uctx)
			uctx_find_token(uctx);
	}
	mutex_unlock(&uctx_mutex);
}

/* The same while the gate is open, as a post does: who closes it looks for tokens. */
static bool uctx_take_open_token(struct kvm_uctx *uctx)
{
	s64 old = atomic64_read(&uctx->words->ctl);

	if (!atomic64_read(&uctx->words->pending))
		return false;
	do {
		if (old & (HAIOV_CONTEXT_CTL_M | HAIOV_CONTEXT_CTL_N))
			return false;
	} while (!atomic64_try_cmpxchg(&uctx->words->ctl, &old,
				       old | HAIOV_CONTEXT_CTL_N));

	return true;
}

/*
 * What was posted while the handler ran could be the thread's next. But if others
 * wait for this CPU, one of them may be a vCPU that the handler can interrupt, so
 * that no thread is needed: let it come, for a while.
 */
static void uctx_make_room(struct kvm_uctx *uctx)
{
	unsigned long flags;

	/* What waits is found by who looks for tokens */
	local_irq_save(flags);
	/* Not a token that the thread has been given, perhaps with a handler */
	if (!single_task_running() && uctx_take_open_token(uctx))
		uctx_wait_for_guest(uctx->id);
	local_irq_restore(flags);
}

/* Would uctx_take() take something? */
static bool uctx_ready(struct kvm_uctx *uctx)
{
	return READ_ONCE(uctx->owned) ||
	       (atomic64_read(&uctx->words->pending) &&
		!(atomic64_read(&uctx->words->ctl) & HAIOV_CONTEXT_CTL_N));
}

/*
 * A hart with nothing else to do waits here instead of in its idle loop, which a
 * wake-up and two switches lie before and behind. As there, it does not poll: WFI
 * ends with the interrupt. What that tells is taken before it is an interrupt.
 */
static void uctx_doze(struct kvm_uctx *uctx)
{
	u64 until = get_cycles64() + riscv_timebase * UCTX_DOZE_US / USEC_PER_SEC;

	preempt_disable();
	WRITE_ONCE(uctx->dozing, true);
	/* Pairs with that of uctx_notify() */
	smp_mb();
	while (!uctx_ready(uctx) && single_task_running() && !need_resched() &&
	       !signal_pending(current) && get_cycles64() < until) {
		local_irq_disable();
		if (!uctx_ready(uctx) && !need_resched()) {
			wait_for_interrupt();
			kvm_riscv_vei_take();
		}
		local_irq_enable();
	}
	WRITE_ONCE(uctx->dozing, false);
	preempt_enable();
}

static int uctx_loop(struct kvm_uctx *uctx, struct kvm_cpu_trap *trap)
{
	int ret;

	for (;;) {
		uctx_doze(uctx);
		uctx_make_room(uctx);
		ret = rcuwait_wait_event(&uctx->wait, uctx_take(uctx),
					 TASK_INTERRUPTIBLE);
		if (ret)
			return -EINTR;
		if (uctx->started || uctx_begin(uctx)) {
			ret = uctx_handler(uctx, trap);
			if (ret)
				return ret;
		}
		uctx_give_back(uctx);
		uctx_aim(uctx);
	}
}

long kvm_riscv_uctx_run(struct kvm_uctx *uctx, struct kvm_uctx_run *run)
{
	struct kvm_cpu_trap trap = {};
	int ret;

	if (!uctx->words->utvec)
		return -EINVAL;
	run->reason = KVM_UCTX_EXIT_HANDLER;
	if (mutex_lock_interruptible(&uctx->run))
		return -EINTR;

	WRITE_ONCE(uctx->thread, current);
	uctx_open(uctx);
	ret = uctx_loop(uctx, &trap);
	uctx_close(uctx);
	WRITE_ONCE(uctx->thread, NULL);

	if (ret == -EIO) {
		run->reason = trap.scause == EXC_SYSCALL ? KVM_UCTX_EXIT_ECALL :
							   KVM_UCTX_EXIT_FAULT;
		run->pending = uctx->pending;
		run->cause = trap.scause;
		run->pc = trap.sepc;
		run->value = trap.stval;
		uctx_give_back(uctx);
		ret = 0;
	} else {
		run->reason = uctx->started ? KVM_UCTX_EXIT_HANDLER :
					      KVM_UCTX_EXIT_IDLE;
	}
	mutex_unlock(&uctx->run);

	return ret;
}

/* The vCPU may be interrupted by handlers. Its own must not exist by mistake. */
void kvm_riscv_vcpu_uctx_load(struct kvm_vcpu *vcpu)
{
	if (!kvm_riscv_uctx_available())
		return;

	if (!to_trapless(vcpu)->uer.utvec) {
		csr_write(CSR_USTATUS, 0);
		csr_write(CSR_HUEDELEG, 0);
	}
	vcpu->arch.guest_context.hstatus |= HSTATUS_HUR;
}

/*
 * After each exit, with interrupts disabled. If it is a trap of a handler: what
 * KVM has saved as the guest's registers is the handler's.
 */
void kvm_riscv_vcpu_uctx_sync(struct kvm_vcpu *vcpu, struct kvm_cpu_trap *trap)
{
	struct kvm_cpu_context *cntx = &vcpu->arch.guest_context;
	struct kvm_cpu_context *handler;
	struct kvm_uctx *uctx;
	unsigned long *save;
	unsigned int x;
	u64 ctl;

	if (!kvm_riscv_uctx_available() || likely(!csr_read(CSR_HUCONTEXT)))
		return;

	ctl = *(u64 *)__va(csr_read(CSR_HUCONTEXT));
	csr_write(CSR_SATP, csr_read(CSR_SUATP));

	uctx = kvm_riscv_uctx_get(FIELD_GET(HAIOV_CONTEXT_CTL_ID, ctl));
	handler = &uctx->arch->guest_context;
	*handler = *cntx;
	uctx->uscratch = csr_read(CSR_USCRATCH);
	uctx->pending = csr_read(CSR_UTVAL);
	uctx->ustatus = HAIOV_USTATUS_UH | HAIOV_USTATUS_UPP;
	uctx->started = true;
	uctx->stats.handed++;

	/* The guest goes on where it was */
	save = (unsigned long *)this_cpu_read(uctx_save);
	for (x = 1; x <= HAIOV_SAVE_X_COUNT; x++)
		(&cntx->zero)[x] = save[x];
	cntx->sepc = save[HAIOV_SAVE_PC / sizeof(*save)];
	if (csr_read(CSR_USTATUS) & HAIOV_USTATUS_UPP)
		cntx->sstatus |= SR_SPP;
	else
		cntx->sstatus &= ~SR_SPP;
	cntx->hstatus |= HSTATUS_SPV;
	csr_write(CSR_USTATUS, save[HAIOV_SAVE_USTATUS / sizeof(*save)]);
	csr_write(CSR_UTVEC, save[HAIOV_SAVE_UTVEC / sizeof(*save)]);
	csr_write(CSR_USCRATCH, save[HAIOV_SAVE_USCRATCH / sizeof(*save)]);
	if (kvm_riscv_trapless_available())
		csr_write(CSR_HGRANT, save[HAIOV_SAVE_GRANT / sizeof(*save)]);
	csr_write(CSR_HUCONTEXT, 0);

	/* The thread sees the same trap again, if it was the handler's own */
	trap->scause |= CAUSE_IRQ_FLAG;
	trap->sepc = cntx->sepc;

	/* Registers before the token */
	smp_store_release(&uctx->owned, true);
	uctx_notify(uctx);
}

static int uctx_alloc_id(struct kvm_uctx *uctx)
{
	u32 id;

	mutex_lock(&uctx_mutex);
	for (id = 0; id < KVM_RISCV_UCTX_MAX; id++) {
		if (rcu_access_pointer(uctx_table[id]))
			continue;
		uctx->id = id;
		rcu_assign_pointer(uctx_table[id], uctx);
		break;
	}
	mutex_unlock(&uctx_mutex);

	return id < KVM_RISCV_UCTX_MAX ? 0 : -ENOSPC;
}

struct kvm_uctx *kvm_riscv_uctx_create(struct kvm *kvm)
{
	struct kvm_uctx *uctx;

	/* Stale translations of handlers are told apart by what fences do */
	if (!FIELD_GET(SATP_ASID_MASK << SATP_ASID_SHIFT, csr_read(CSR_SATP)))
		return ERR_PTR(-EOPNOTSUPP);

	uctx = kzalloc(sizeof(*uctx), GFP_KERNEL_ACCOUNT);
	if (!uctx)
		return ERR_PTR(-ENOMEM);
	mutex_init(&uctx->run);
	mutex_init(&uctx->lock);
	mutex_init(&uctx->gate);
	raw_spin_lock_init(&uctx->token);
	rcuwait_init(&uctx->wait);
	uctx->kvm = kvm;
	uctx->cpu = KVM_DEV_UCTX_CPU_THREAD;
	uctx->named = UCTX_NO_CPU;

	uctx->arch = kzalloc(sizeof(*uctx->arch), GFP_KERNEL_ACCOUNT);
	uctx->words = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!uctx->arch || !uctx->words || uctx_alloc_id(uctx)) {
		free_page((unsigned long)uctx->words);
		kfree(uctx->arch);
		kfree(uctx);
		return ERR_PTR(-ENOMEM);
	}
	uctx->words->budget = UCTX_BUDGET;
	atomic64_set(&uctx->words->ctl, HAIOV_CONTEXT_CTL_V | HAIOV_CONTEXT_CTL_M |
		     FIELD_PREP(HAIOV_CONTEXT_CTL_ID, uctx->id));

	return uctx;
}

/* The address space is about to go: no handler runs in it any more. */
void kvm_riscv_uctx_stop(struct kvm_uctx *uctx)
{
	atomic64_fetch_or(HAIOV_CONTEXT_CTL_M, &uctx->words->ctl);
	atomic64_fetch_andnot(HAIOV_CONTEXT_CTL_V, &uctx->words->ctl);
	kvm_riscv_vei_sync();
	kvm_riscv_uctx_interrupt();
}

/* No event is for the context any more, and no thread is in KVM_UCTX_RUN. */
void kvm_riscv_uctx_free(struct kvm_uctx *uctx)
{
	kvm_riscv_uctx_stop(uctx);
	/* Its address may be in a queue */
	kvm_riscv_vei_drain();

	mutex_lock(&uctx_mutex);
	RCU_INIT_POINTER(uctx_table[uctx->id], NULL);
	mutex_unlock(&uctx_mutex);
	synchronize_rcu();

	free_page((unsigned long)uctx->words);
	kfree(uctx->arch);
	kfree(uctx);
}

/* The address space of a process goes. */
void kvm_riscv_uctx_release_vm(struct kvm *kvm)
{
	struct kvm_uctx *uctx;
	u32 id;

	if (!kvm_riscv_uctx_available())
		return;

	mutex_lock(&uctx_mutex);
	for (id = 0; id < KVM_RISCV_UCTX_MAX; id++) {
		uctx = kvm_riscv_uctx_get(id);
		if (uctx && uctx->kvm == kvm)
			kvm_riscv_uctx_stop(uctx);
	}
	mutex_unlock(&uctx_mutex);
}

void kvm_riscv_uctx_enable(void)
{
	if (!kvm_riscv_uctx_available())
		return;

	csr_write(CSR_HUCONTEXT, 0);
	csr_write(CSR_HUCSHARE, UCTX_SHARE);
	csr_write(CSR_HUCSAVE, HAIOV_HUCSAVE_V |
			       __pa((void *)this_cpu_read(uctx_save)));
}

void kvm_riscv_uctx_disable(void)
{
	if (!kvm_riscv_uctx_available())
		return;

	csr_write(CSR_HUCSAVE, 0);
	kvm_riscv_uctx_flush();
}

/* Do all harts that the device tree describes have the extension? */
static bool __init uctx_probe(void)
{
	struct device_node *cpu;
	bool found = uctx;

	for_each_of_cpu_node(cpu)
		found &= of_property_match_string(cpu, "riscv,isa-extensions",
						  "xhcs") >= 0;

	return found && kvm_riscv_vei_available() && kvm_riscv_uer_available();
}

static void uctx_free_save(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		free_page(per_cpu(uctx_save, cpu));
}

int __init kvm_riscv_uctx_init(void)
{
	int cpu, ret;

	if (!uctx_probe())
		return -ENODEV;

	for_each_possible_cpu(cpu) {
		per_cpu(uctx_save, cpu) = get_zeroed_page(GFP_KERNEL);
		if (!per_cpu(uctx_save, cpu)) {
			uctx_free_save();
			return -ENOMEM;
		}
		hrtimer_init(per_cpu_ptr(&uctx_timer, cpu), CLOCK_MONOTONIC,
			     HRTIMER_MODE_REL_PINNED_HARD);
		per_cpu(uctx_timer, cpu).function = uctx_timeout;
		/* Pointers in per-CPU data of a module are not relocated */
		per_cpu(uctx_work, cpu) = IRQ_WORK_INIT_HARD(uctx_flush_work);
	}

	ret = kvm_register_device_ops(&kvm_riscv_uctx_device_ops,
				      KVM_DEV_TYPE_RISCV_UCTX);
	if (ret) {
		uctx_free_save();
		return ret;
	}
	static_branch_enable(&kvm_riscv_uctx_available);

	return 0;
}

/* Called when virtualization has been disabled on all CPUs. */
void kvm_riscv_uctx_exit(void)
{
	int cpu;

	if (!kvm_riscv_uctx_available())
		return;

	kvm_unregister_device_ops(KVM_DEV_TYPE_RISCV_UCTX);
	for_each_possible_cpu(cpu) {
		irq_work_sync(per_cpu_ptr(&uctx_work, cpu));
		hrtimer_cancel(per_cpu_ptr(&uctx_timer, cpu));
	}
	uctx_free_save();
}
