// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_seq: numbers every timer, IPI and device interrupt of a guest and
 * checks that each comes exactly once, at the right CPU and not too early.
 *
 *	insmod trapless_seq.ko timers=10000 ipis=10000 devices=10000
 *	cat /proc/trapless_seq
 *	rmmod trapless_seq
 *
 * insmod returns when the test has ended (wait=0: at once).  The first line of
 * /proc/trapless_seq has nothing but numbers, for scripts:
 *
 *	TIMER IPI DEVICE ERRORS LOST DUPLICATE EARLY MISDELIVERED FAILED
 *
 * how many interrupts of each class came, all errors, and those of each kind.
 * The next ones say the same with names, whether the test has ended
 * ("state=running", "state=done"), counts per CPU, pair and source, and the
 * first errors in words.
 *
 * Timers (seq_timer.c): one hrtimer per CPU, armed again by its own callback
 * at a random distance.  IPIs (seq_ipi.c): a thread on each CPU sends to all
 * CPUs, itself included, and waits until each has come.  Devices
 * (seq_device.c): the VMM's test device raises numbered interrupts of several
 * sources while a thread moves them over all CPUs.
 *
 * Nothing here depends on Xtrapless: on any other interrupt architecture the
 * same module checks the same things.
 */

#define pr_fmt(fmt) "trapless_seq: " fmt

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "seq.h"

unsigned long seq_timers = 10000;
module_param_named(timers, seq_timers, ulong, 0444);
MODULE_PARM_DESC(timers, "Timer interrupts per CPU, 0: none (default 10000)");

unsigned long seq_ipis = 10000;
module_param_named(ipis, seq_ipis, ulong, 0444);
MODULE_PARM_DESC(ipis, "IPIs per CPU and target, 0: none (default 10000)");

unsigned long seq_devices = 10000;
module_param_named(devices, seq_devices, ulong, 0444);
MODULE_PARM_DESC(devices, "Device interrupts per source, 0: none (default 10000)");

static unsigned int seconds;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "End after so many seconds, 0: when all have come (default 0)");

static unsigned int timeout = 10;
module_param(timeout, uint, 0444);
MODULE_PARM_DESC(timeout, "Seconds without progress after which an interrupt is lost (default 10)");

static bool wait = true;
module_param(wait, bool, 0444);
MODULE_PARM_DESC(wait, "insmod returns when the test has ended (default on)");

unsigned int seq_timer_ns = 200000;
module_param_named(timer_ns, seq_timer_ns, uint, 0444);
MODULE_PARM_DESC(timer_ns, "Mean distance of timers in ns (default 200000)");

unsigned int seq_late_ns = 1000000;
module_param_named(late_ns, seq_late_ns, uint, 0444);
MODULE_PARM_DESC(late_ns, "Timers later than this are counted as late, which is no error (default 1000000)");

unsigned int seq_slow_ms = 500;
module_param_named(slow_ms, seq_slow_ms, uint, 0444);
MODULE_PARM_DESC(slow_ms, "IPIs and timers that are later count as lost, 0: no limit (default 500)");

unsigned int seq_ipi_us;
module_param_named(ipi_us, seq_ipi_us, uint, 0444);
MODULE_PARM_DESC(ipi_us, "Pause of a sender of IPIs between two rounds in us (default 0)");

unsigned int seq_affinity_ms = 20;
module_param_named(affinity_ms, seq_affinity_ms, uint, 0444);
MODULE_PARM_DESC(affinity_ms, "Device interrupts move to other CPUs every so many ms, 0: never (default 20)");

unsigned int seq_device_us = 50;
module_param_named(device_us, seq_device_us, uint, 0444);
MODULE_PARM_DESC(device_us, "Pause of the test device between rounds in us (default 50)");

unsigned int seq_linger_us;
module_param_named(linger_us, seq_linger_us, uint, 0444);
MODULE_PARM_DESC(linger_us, "Handlers go on for so many us after the device may send the next (default 0)");

unsigned int seq_burst = 4;
module_param_named(burst, seq_burst, uint, 0444);
MODULE_PARM_DESC(burst, "Level sources: interrupts owed at once, 1..8 (default 4)");

int seq_kind = -1;
module_param_named(kind, seq_kind, int, 0444);
MODULE_PARM_DESC(kind, "Sources that send: 0 edge, 1 level, 2 resample, -1 all (default -1)");

unsigned int seq_sources = 32;
module_param_named(sources, seq_sources, uint, 0444);
MODULE_PARM_DESC(sources, "Most sources that send (default 32)");

unsigned int seq_seed = 1;
module_param_named(seed, seq_seed, uint, 0444);
MODULE_PARM_DESC(seed, "Start of the random numbers (default 1)");

struct cpumask seq_cpus;
bool seq_stopping;

#define SEQ_POLL_HZ	50
#define SEQ_MESSAGES	16

static const char * const error_names[SEQ_ERRORS] = {
	[SEQ_LOST]		= "lost",
	[SEQ_DUPLICATE]		= "duplicate",
	[SEQ_EARLY]		= "early",
	[SEQ_MISDELIVERED]	= "misdelivered",
	[SEQ_FAILED]		= "failed",
};

static atomic64_t errors[SEQ_ERRORS];
static DEFINE_RAW_SPINLOCK(messages_lock);
static char messages[SEQ_MESSAGES][120];
static unsigned int nr_messages;

static struct task_struct *main_thread;
/* Timers, senders and sources that have not ended, and the main thread until it looks. */
static atomic_t parts;
static bool all_ended;
static DECLARE_COMPLETION(main_begun);
static DECLARE_WAIT_QUEUE_HEAD(done_wait);
static bool done;
static ktime_t begun, ended;
static enum cpuhp_state hotplug_state;

bool seq_should_stop(void)
{
	return READ_ONCE(seq_stopping) || kthread_should_stop();
}

void seq_error(enum seq_error kind, const char *format, ...)
{
	unsigned long flags;
	va_list args;

	atomic64_inc(&errors[kind]);
	raw_spin_lock_irqsave(&messages_lock, flags);
	if (nr_messages < SEQ_MESSAGES) {
		va_start(args, format);
		vscnprintf(messages[nr_messages], sizeof(messages[0]), format,
			   args);
		va_end(args);
		pr_err("%s: %s\n", error_names[kind], messages[nr_messages]);
		nr_messages++;
	}
	raw_spin_unlock_irqrestore(&messages_lock, flags);
}

void seq_add_parts(unsigned int number)
{
	atomic_add(number, &parts);
}

void seq_part_ended(void)
{
	if (!atomic_dec_and_test(&parts))
		return;
	WRITE_ONCE(all_ended, true);
	wake_up_process(main_thread);
}

/*
 * Counts observations instead of looking at the clock, so that a guest that
 * was stopped by its host for a while is not accused of losing anything.
 */
bool seq_watch(struct seq_watch *watch, u64 value, bool owed)
{
	if (!owed || value != watch->last) {
		watch->last = value;
		watch->stuck = 0;
		return false;
	}
	return ++watch->stuck == timeout * SEQ_POLL_HZ;
}

/* Until the next look at what is owed. */
static void wait_to_look(void)
{
	set_current_state(TASK_INTERRUPTIBLE);
	if (!READ_ONCE(all_ended) && !kthread_should_stop())
		schedule_timeout(HZ / SEQ_POLL_HZ);
	__set_current_state(TASK_RUNNING);
	/*
	 * Once without waiting for the next turn, but not at once: a duplicate
	 * of the last one may be under way, and the device finds that it has
	 * ended.
	 */
	if (xchg(&all_ended, false))
		schedule_timeout_interruptible(1);
}

static int main_function(void *unused)
{
	ktime_t end = ktime_add_ms(begun, seconds * 1000ULL);
	bool busy = true;

	complete(&main_begun);
	seq_part_ended();
	while (busy && !kthread_should_stop()) {
		wait_to_look();
		if (seconds && ktime_after(ktime_get(), end))
			WRITE_ONCE(seq_stopping, true);
		/* All of them look at their interrupts each time. */
		busy = seq_timer_busy();
		busy |= seq_ipi_busy();
		busy |= seq_device_busy();
	}
	WRITE_ONCE(seq_stopping, true);
	seq_device_stop();
	seq_timer_stop();
	/* A lost IPI that comes after all must still find its code. */
	if (!seq_ipi_stop())
		__module_get(THIS_MODULE);

	ended = ktime_get();
	WRITE_ONCE(done, true);
	wake_up_all(&done_wait);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ);
	return 0;
}

static u64 error_count(void)
{
	u64 sum = 0;
	int i;

	for (i = 0; i < SEQ_ERRORS; i++)
		sum += atomic64_read(&errors[i]);
	return sum;
}

static int seq_proc_show(struct seq_file *m, void *unused)
{
	bool now_done = READ_ONCE(done);
	ktime_t end = now_done ? ended : ktime_get();
	unsigned int i;

	/* A shell takes long to find numbers in a text. */
	seq_printf(m, "%llu %llu %llu %llu", seq_timer_total(), seq_ipi_total(),
		   seq_device_total(), error_count());
	for (i = 0; i < SEQ_ERRORS; i++)
		seq_printf(m, " %lld", atomic64_read(&errors[i]));
	seq_printf(m, "\ntimer=%llu ipi=%llu device=%llu errors=%llu\n",
		   seq_timer_total(), seq_ipi_total(), seq_device_total(),
		   error_count());
	seq_puts(m, "errors");
	for (i = 0; i < SEQ_ERRORS; i++)
		seq_printf(m, " %s=%lld", error_names[i],
			   atomic64_read(&errors[i]));
	seq_putc(m, '\n');
	seq_printf(m, "state=%s cpus=%u milliseconds=%lld\n",
		   now_done ? "done" : "running", cpumask_weight(&seq_cpus),
		   ktime_ms_delta(end, begun));
	seq_timer_show(m);
	seq_ipi_show(m);
	seq_device_show(m);
	for (i = 0; i < READ_ONCE(nr_messages); i++)
		seq_printf(m, "message %s\n", messages[i]);
	return 0;
}

/* The CPUs that take part stay online. */
static int keep_online(unsigned int cpu)
{
	return READ_ONCE(done) || !cpumask_test_cpu(cpu, &seq_cpus) ? 0 : -EBUSY;
}

static void stop_all(void)
{
	kthread_stop(main_thread);
	seq_device_exit();
	seq_timer_exit();
	seq_ipi_free();
	/* Nothing ends any more that would wake it. */
	put_task_struct(main_thread);
	cpuhp_remove_state_nocalls(hotplug_state);
}

static int __init seq_init(void)
{
	int ret;

	seq_timer_ns = clamp(seq_timer_ns, 1000U, 1000000000U);
	seq_burst = clamp(seq_burst, 1U, 8U);
	timeout = clamp(timeout, 1U, 3600U);

	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "trapless_seq",
					NULL, keep_online);
	if (ret < 0)
		return ret;
	hotplug_state = ret;
	cpus_read_lock();
	cpumask_copy(&seq_cpus, cpu_online_mask);
	cpus_read_unlock();

	begun = ktime_get();
	seq_add_parts(1);
	ret = seq_device_init();
	if (ret)
		goto remove_state;
	ret = seq_ipi_start();
	if (ret)
		goto exit_device;
	ret = seq_timer_start();
	if (ret)
		goto stop_ipi;
	ret = seq_device_start();
	if (ret)
		goto stop_timer;
	/* Whatever ends last wakes it: it exists before it runs. */
	main_thread = kthread_create(main_function, NULL, "trapless_seq");
	if (IS_ERR(main_thread)) {
		ret = PTR_ERR(main_thread);
		goto stop_device;
	}
	get_task_struct(main_thread);
	wake_up_process(main_thread);
	/* A thread that is stopped before it has begun would leave all running. */
	wait_for_completion(&main_begun);
	if (!proc_create_single("trapless_seq", 0444, NULL, seq_proc_show)) {
		stop_all();
		return -ENOMEM;
	}
	if (!wait)
		return 0;

	ret = wait_event_interruptible(done_wait, READ_ONCE(done));
	if (ret) {
		remove_proc_entry("trapless_seq", NULL);
		stop_all();
	}
	return ret;

stop_device:
	seq_device_stop();
stop_timer:
	seq_timer_stop();
	seq_timer_exit();
stop_ipi:
	WRITE_ONCE(seq_stopping, true);
	seq_ipi_stop();
	seq_ipi_free();
exit_device:
	seq_device_exit();
remove_state:
	cpuhp_remove_state_nocalls(hotplug_state);
	return ret;
}
module_init(seq_init);

static void __exit seq_exit(void)
{
	remove_proc_entry("trapless_seq", NULL);
	stop_all();
}
module_exit(seq_exit);

MODULE_DESCRIPTION("Checks that no interrupt is lost, duplicated or misdelivered");
MODULE_LICENSE("GPL");
