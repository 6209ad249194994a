// SPDX-License-Identifier: GPL-2.0-only
/*
 * Timer interrupts: one hrtimer per CPU, pinned to it, numbered by its
 * callback.  hrtimers hide a timer interrupt that comes before its time, so
 * the entry of the timer's interrupt handler is watched, too.
 */

#include <linux/clockchips.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "../compat.h"
#include "seq.h"

/* Rounding between nanoseconds and ticks, and between two clock readings. */
#define EARLY_SLACK_NS	5000

struct seq_timer {
	struct hrtimer timer;
	struct rnd_state random;
	u64 armed;
	u64 fired;
	u64 late;
	u64 max_late_ns;
	u64 interrupts;
	bool lost;
	struct seq_watch watch;
};

static DEFINE_PER_CPU(struct seq_timer, seq_timer_state);
static bool running, probed;
static struct tracepoint *entry_tracepoint;

static ktime_t next_expiry(struct seq_timer *t, ktime_t now)
{
	u32 random = prandom_u32_state(&t->random);

	/* Now and then one that has expired before it is programmed. */
	if ((random & 0x3f) == 0)
		return now;
	return ktime_add_ns(now, seq_timer_ns / 2 + random % seq_timer_ns);
}

static enum hrtimer_restart seq_timer_fired(struct hrtimer *timer)
{
	struct seq_timer *t = container_of(timer, struct seq_timer, timer);
	ktime_t now = ktime_get();
	s64 late = ktime_to_ns(ktime_sub(now, hrtimer_get_expires(timer)));

	if (t != this_cpu_ptr(&seq_timer_state))
		seq_error(SEQ_MISDELIVERED, "timer of another CPU on CPU %d",
			  smp_processor_id());
	if (late < 0)
		seq_error(SEQ_EARLY, "timer of CPU %d, %lld ns",
			  smp_processor_id(), -late);
	if (t->armed != t->fired + 1)
		seq_error(SEQ_DUPLICATE, "timer of CPU %d, %llu armed, %llu fired before",
			  smp_processor_id(), t->armed, t->fired);
	if (seq_slow_ms && late > seq_slow_ms * (s64)NSEC_PER_MSEC)
		seq_error(SEQ_LOST, "timer of CPU %d for %lld ns",
			  smp_processor_id(), late);
	if (late > (s64)seq_late_ns)
		t->late++;
	if (late > (s64)t->max_late_ns)
		t->max_late_ns = late;
	WRITE_ONCE(t->fired, t->fired + 1);

	if (t->fired >= seq_timers || READ_ONCE(seq_stopping)) {
		seq_part_ended();
		return HRTIMER_NORESTART;
	}
	WRITE_ONCE(t->armed, t->armed + 1);
	hrtimer_set_expires(timer, next_expiry(t, now));
	return HRTIMER_RESTART;
}

/* Probe of irq_handler_entry. */
static void seq_irq_entry(void *data, int irq, struct irqaction *action)
{
	struct clock_event_device *evt;
	struct seq_timer *t;
	ktime_t next, now;

	if (!READ_ONCE(running) || !action->name || strcmp(action->name, "riscv-timer"))
		return;
	t = this_cpu_ptr(&seq_timer_state);
	t->interrupts++;
	evt = raw_cpu_ptr(action->percpu_dev_id);
	next = evt->next_event;
	now = ktime_get();
	/* KTIME_MAX: switched off, which leaves the hardware as it was. */
	if (next != KTIME_MAX &&
	    ktime_before(ktime_add_ns(now, EARLY_SLACK_NS), next))
		seq_error(SEQ_EARLY, "timer interrupt of CPU %d, %lld ns",
			  smp_processor_id(), ktime_to_ns(ktime_sub(next, now)));
}

static void find_tracepoint(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "irq_handler_entry"))
		entry_tracepoint = tp;
}

static void start_on_cpu(void *unused)
{
	struct seq_timer *t = this_cpu_ptr(&seq_timer_state);

	t->armed = 1;
	hrtimer_start(&t->timer, next_expiry(t, ktime_get()),
		      HRTIMER_MODE_ABS_PINNED_HARD);
}

int seq_timer_start(void)
{
	unsigned int cpu;
	int ret;

	if (!seq_timers)
		return 0;
	for_each_kernel_tracepoint(find_tracepoint, NULL);
	if (!entry_tracepoint)
		return -ENOENT;
	ret = tracepoint_probe_register(entry_tracepoint, seq_irq_entry, NULL);
	if (ret)
		return ret;
	probed = true;
	for_each_cpu(cpu, &seq_cpus) {
		struct seq_timer *t = per_cpu_ptr(&seq_timer_state, cpu);

		hrtimer_setup(&t->timer, seq_timer_fired, CLOCK_MONOTONIC,
			      HRTIMER_MODE_ABS_PINNED_HARD);
		prandom_seed_state(&t->random, seq_seed + cpu);
	}
	running = true;
	seq_add_parts(cpumask_weight(&seq_cpus));
	on_each_cpu_mask(&seq_cpus, start_on_cpu, NULL, true);
	return 0;
}

bool seq_timer_busy(void)
{
	bool busy = false;
	unsigned int cpu;

	if (!running)
		return false;
	for_each_cpu(cpu, &seq_cpus) {
		struct seq_timer *t = per_cpu_ptr(&seq_timer_state, cpu);
		u64 fired = READ_ONCE(t->fired);
		bool owed = fired < READ_ONCE(t->armed);

		if (t->lost)
			continue;
		if (seq_watch(&t->watch, fired, owed)) {
			seq_error(SEQ_LOST, "timer of CPU %u, number %llu",
				  cpu, fired + 1);
			t->lost = true;
			continue;
		}
		busy |= owed;
	}
	return busy;
}

void seq_timer_stop(void)
{
	unsigned int cpu;

	if (!running)
		return;
	for_each_cpu(cpu, &seq_cpus)
		hrtimer_cancel(&per_cpu_ptr(&seq_timer_state, cpu)->timer);
	WRITE_ONCE(running, false);
}

/*
 * The probe goes with the module: to change the kernel's text back and to wait
 * for RCU takes longer than a short test.
 */
void seq_timer_exit(void)
{
	if (!probed)
		return;
	tracepoint_probe_unregister(entry_tracepoint, seq_irq_entry, NULL);
	tracepoint_synchronize_unregister();
	probed = false;
}

void seq_timer_show(struct seq_file *m)
{
	unsigned int cpu;

	if (!seq_timers)
		return;
	for_each_cpu(cpu, &seq_cpus) {
		struct seq_timer *t = per_cpu_ptr(&seq_timer_state, cpu);

		seq_printf(m, "timer cpu=%u armed=%llu fired=%llu interrupts=%llu late=%llu max_late_ns=%llu\n",
			   cpu, READ_ONCE(t->armed), READ_ONCE(t->fired),
			   READ_ONCE(t->interrupts), READ_ONCE(t->late),
			   READ_ONCE(t->max_late_ns));
	}
}

u64 seq_timer_total(void)
{
	unsigned int cpu;
	u64 sum = 0;

	for_each_cpu(cpu, &seq_cpus)
		sum += READ_ONCE(per_cpu_ptr(&seq_timer_state, cpu)->fired);
	return sum;
}
