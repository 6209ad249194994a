// SPDX-License-Identifier: GPL-2.0-only
/*
 * IPIs: on each CPU a thread sends numbered ones to all CPUs: function calls to
 * the others, irq_works to its own.
 *
 * The first half is a crowd: each thread sends to all CPUs and waits until all
 * have come, awake and asleep in turn, so that targets are found busy and
 * halted.  But in a crowd another IPI soon makes up for one that was lost.  In
 * the second half one thread at a time sends one IPI at a time while the others
 * are silent.  The kernel's own IPIs make up for a lost one even then after a
 * while, so an IPI that takes longer than slow_ms counts as lost.
 */

#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "../irqchip/irq-riscv-trapless-ipi.h"
#include "seq.h"

/* Awake, a sender gives its CPU away every so many looks. */
#define LOOKS_PER_YIELD	64

/* Rounds that one sender sends alone before it is the next one's turn. */
#define ROUNDS_PER_TURN	256

/* From one CPU to one CPU. */
struct seq_pair {
	call_single_data_t csd;
	struct irq_work work;
	struct seq_sender *sender;
	unsigned int to;
	u64 sent;
	u64 handled;
	s64 max_alone_ns;
	bool lost;
	struct seq_watch watch;
};

struct seq_sender {
	struct task_struct *thread;
	unsigned int number;
	unsigned int from;
	bool finished;
	bool lost;
	struct seq_pair *pairs;
};

/* Senders that are through with the crowd, and whose turn it is after that. */
static atomic_t crowd_over;
static atomic_t turn;

static unsigned long excess_before;
static struct seq_sender *senders;
static unsigned int nr_senders;

/*
 * An interrupt without an IPI is seen by nobody but the driver of IPIs.  That
 * of Xtrapless counts them, if it is there.
 */
static unsigned long excess(void)
{
	typeof(&riscv_trapless_ipi_excess) get =
		symbol_get(riscv_trapless_ipi_excess);
	unsigned long value = 0;

	if (get) {
		value = get();
		symbol_put(riscv_trapless_ipi_excess);
	}
	return value;
}

static void handle(struct seq_pair *pair)
{
	unsigned int cpu = smp_processor_id();
	u64 sent = READ_ONCE(pair->sent);

	if (cpu != pair->to)
		seq_error(SEQ_MISDELIVERED, "IPI %u -> %u on CPU %u",
			  pair->sender->from, pair->to, cpu);
	if (sent != pair->handled + 1)
		seq_error(SEQ_DUPLICATE, "IPI %u -> %u, %llu sent, %llu handled before",
			  pair->sender->from, pair->to, sent, pair->handled);
	/* The sender reuses the call as soon as it sees this. */
	smp_store_release(&pair->handled, pair->handled + 1);
	wake_up_process(pair->sender->thread);
}

static void handle_call(void *info)
{
	handle(info);
}

static void handle_work(struct irq_work *work)
{
	handle(container_of(work, struct seq_pair, work));
}

static bool arrived(struct seq_sender *sender)
{
	unsigned int i;

	for (i = 0; i < nr_senders; i++) {
		struct seq_pair *pair = &sender->pairs[i];

		if (READ_ONCE(pair->lost))
			continue;
		/* The call may be used again after this. */
		if (smp_load_acquire(&pair->handled) != pair->sent)
			return false;
	}
	return true;
}

static void send(struct seq_sender *sender, struct seq_pair *pair)
{
	int ret = 0;

	if (READ_ONCE(pair->lost))
		return;
	WRITE_ONCE(pair->sent, pair->sent + 1);
	if (pair->to == sender->from)
		ret = irq_work_queue(&pair->work) ? 0 : -EBUSY;
	else
		ret = smp_call_function_single_async(pair->to, &pair->csd);
	if (ret) {
		seq_error(SEQ_FAILED, "IPI %u -> %u cannot be sent: error %d",
			  sender->from, pair->to, ret);
		WRITE_ONCE(pair->lost, true);
	}
}

static void wait_awake(struct seq_sender *sender)
{
	unsigned int looks = 0;

	while (!arrived(sender)) {
		cpu_relax();
		if (++looks % LOOKS_PER_YIELD == 0)
			cond_resched();
	}
}

static void wait_asleep(struct seq_sender *sender)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (arrived(sender))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
}

/* How long IPIs took that were sent at @begin; too long is an error. */
static s64 time_taken(struct seq_sender *sender, ktime_t begin)
{
	s64 ns = ktime_to_ns(ktime_sub(ktime_get(), begin));

	if (seq_slow_ms && ns > seq_slow_ms * (s64)NSEC_PER_MSEC &&
	    !sender->lost)
		seq_error(SEQ_LOST, "IPI of CPU %u for %lld ns", sender->from,
			  ns);
	return ns;
}

static void send_in_crowd(struct seq_sender *sender)
{
	unsigned long round;
	ktime_t begin;
	unsigned int i;

	for (round = 0; round < seq_ipis / 2 && !seq_should_stop(); round++) {
		begin = ktime_get();
		for (i = 0; i < nr_senders; i++)
			send(sender, &sender->pairs[(sender->from + i + round) %
						    nr_senders]);
		if (round & 1)
			wait_awake(sender);
		else
			wait_asleep(sender);
		time_taken(sender, begin);
		if (seq_ipi_us)
			usleep_range(seq_ipi_us, seq_ipi_us + seq_ipi_us / 4);
		cond_resched();
	}
	atomic_inc(&crowd_over);
}

static void send_alone(struct seq_sender *sender, struct seq_pair *pair)
{
	ktime_t begin = ktime_get();
	s64 ns;

	send(sender, pair);
	wait_awake(sender);
	ns = time_taken(sender, begin);
	if (ns > pair->max_alone_ns)
		WRITE_ONCE(pair->max_alone_ns, ns);
}

static bool my_turn(struct seq_sender *sender)
{
	return atomic_read(&crowd_over) == nr_senders &&
	       atomic_read(&turn) % nr_senders == sender->number;
}

static void send_in_turns(struct seq_sender *sender)
{
	unsigned long round;
	unsigned int i;

	for (round = seq_ipis / 2; round < seq_ipis; round++) {
		/* Without a wake-up: that would be another IPI. */
		while (!my_turn(sender) && !seq_should_stop())
			schedule_timeout_interruptible(1);
		if (seq_should_stop())
			break;
		for (i = 0; i < nr_senders; i++)
			send_alone(sender, &sender->pairs[i]);
		if (seq_ipi_us)
			usleep_range(seq_ipi_us, seq_ipi_us + seq_ipi_us / 4);
		if (round % ROUNDS_PER_TURN == 0 || round == seq_ipis - 1)
			atomic_inc(&turn);
	}
}

static int sender_function(void *data)
{
	struct seq_sender *sender = data;

	send_in_crowd(sender);
	send_in_turns(sender);
	WRITE_ONCE(sender->finished, true);
	seq_part_ended();
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int init_sender(struct seq_sender *sender, unsigned int number,
		       unsigned int from)
{
	struct seq_pair *pair;
	unsigned int to, i = 0;

	sender->number = number;
	sender->from = from;
	sender->pairs = kcalloc(nr_senders, sizeof(*pair), GFP_KERNEL);
	if (!sender->pairs)
		return -ENOMEM;
	for_each_cpu(to, &seq_cpus) {
		pair = &sender->pairs[i++];
		pair->sender = sender;
		pair->to = to;
		INIT_CSD(&pair->csd, handle_call, pair);
		pair->work = IRQ_WORK_INIT_HARD(handle_work);
	}
	sender->thread = kthread_create_on_cpu(sender_function, sender, from,
					       "trapless_ipi/%u");
	if (IS_ERR(sender->thread)) {
		kfree(sender->pairs);
		return PTR_ERR(sender->thread);
	}
	return 0;
}

int seq_ipi_start(void)
{
	unsigned int cpu, ready = 0;
	int ret = 0;

	if (!seq_ipis)
		return 0;
	nr_senders = cpumask_weight(&seq_cpus);
	senders = kcalloc(nr_senders, sizeof(*senders), GFP_KERNEL);
	if (!senders)
		return -ENOMEM;
	for_each_cpu(cpu, &seq_cpus) {
		ret = init_sender(&senders[ready], ready, cpu);
		if (ret)
			break;
		ready++;
	}
	if (ret) {
		while (ready--) {
			kthread_stop(senders[ready].thread);
			kfree(senders[ready].pairs);
		}
		kfree(senders);
		senders = NULL;
		return ret;
	}
	excess_before = excess();
	seq_add_parts(nr_senders);
	while (ready--)
		wake_up_process(senders[ready].thread);
	return 0;
}

bool seq_ipi_busy(void)
{
	bool busy = false;
	unsigned int i, j;

	for (i = 0; senders && i < nr_senders; i++) {
		for (j = 0; j < nr_senders; j++) {
			struct seq_pair *pair = &senders[i].pairs[j];
			u64 handled = READ_ONCE(pair->handled);
			bool owed = handled != READ_ONCE(pair->sent);

			if (pair->lost || !seq_watch(&pair->watch, handled, owed))
				continue;
			seq_error(SEQ_LOST, "IPI %u -> %u, number %llu",
				  senders[i].from, pair->to, handled + 1);
			WRITE_ONCE(senders[i].lost, true);
			WRITE_ONCE(pair->lost, true);
			wake_up_process(senders[i].thread);
		}
		busy |= !READ_ONCE(senders[i].finished);
	}
	return busy;
}

bool seq_ipi_stop(void)
{
	unsigned long more;
	bool all = true;
	unsigned int i, j;

	if (!senders)
		return true;
	for (i = 0; i < nr_senders; i++) {
		for (j = 0; j < nr_senders; j++)
			all &= !senders[i].pairs[j].lost;
		/* A sender that waits for something lost gives up with busy(). */
		while (!READ_ONCE(senders[i].finished)) {
			seq_ipi_busy();
			schedule_timeout_uninterruptible(HZ / 10);
		}
		/* The handler may wake the thread a last time. */
		get_task_struct(senders[i].thread);
		kthread_stop(senders[i].thread);
	}
	more = excess() - excess_before;
	if (more)
		seq_error(SEQ_DUPLICATE, "%lu software interrupts without an IPI",
			  more);
	return all;
}

void seq_ipi_free(void)
{
	unsigned int i, j;

	if (!senders)
		return;
	/* A handler may still be on its way out of wake_up_process(). */
	synchronize_rcu();
	for (i = 0; i < nr_senders; i++) {
		for (j = 0; j < nr_senders; j++)
			irq_work_sync(&senders[i].pairs[j].work);
		put_task_struct(senders[i].thread);
		kfree(senders[i].pairs);
	}
	kfree(senders);
	senders = NULL;
}

void seq_ipi_show(struct seq_file *m)
{
	unsigned int i, j;

	for (i = 0; senders && i < nr_senders; i++)
		for (j = 0; j < nr_senders; j++) {
			struct seq_pair *pair = &senders[i].pairs[j];

			seq_printf(m, "ipi from=%u to=%u sent=%llu handled=%llu max_alone_ns=%lld\n",
				   senders[i].from, pair->to,
				   READ_ONCE(pair->sent),
				   READ_ONCE(pair->handled),
				   READ_ONCE(pair->max_alone_ns));
		}
}

u64 seq_ipi_total(void)
{
	unsigned int i, j;
	u64 sum = 0;

	for (i = 0; senders && i < nr_senders; i++)
		for (j = 0; j < nr_senders; j++)
			sum += READ_ONCE(senders[i].pairs[j].handled);
	return sum;
}
