// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_unplug: a device that interrupts a CPU until that is off line, for
 * the system tests.
 *
 * When CPU cpu=N begins to go off line, a timer there signals one eventfd after
 * the other, from hard interrupt context as a driver does (VFIO for instance),
 * until the CPU takes no interrupts any more. The eventfds are files
 * first=N .. first + count - 1 of the process that loads the module.
 *
 * With idle=N the eventfds are signalled while CPU N is in a low-power state, as
 * the CPU PM notifiers announce it, and only after KVM has switched Xtrapless off
 * on the CPU that goes.
 *
 *	sent	eventfds that have been signalled
 *	late	of these, signalled after KVM had switched Xtrapless off there
 *	slept	with idle=N: times that CPU was in its low-power state
 */

#include <linux/cpu_pm.h>
#include <linux/cpuhotplug.h>
#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <asm/csr.h>
#include <asm/xtrapless.h>

#define UNPLUG_PERIOD_NS	20000
#define UNPLUG_PATIENCE_MS	200

static unsigned int cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "CPU that goes off line (default 1)");

static int first;
module_param(first, int, 0444);
MODULE_PARM_DESC(first, "First eventfd");

static unsigned int count;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "Number of eventfds");

static int idle = -1;
module_param(idle, int, 0444);
MODULE_PARM_DESC(idle, "CPU that is in a low-power state meanwhile (default -1: none)");

static unsigned int sent;
module_param(sent, uint, 0444);
MODULE_PARM_DESC(sent, "Result: eventfds signalled");

static unsigned int late;
module_param(late, uint, 0444);
MODULE_PARM_DESC(late, "Result: those signalled while htlcfg.EN was 0");

static unsigned int slept;
module_param(slept, uint, 0444);
MODULE_PARM_DESC(slept, "Result: times CPU idle=N was in a low-power state");

static struct eventfd_ctx **eventfds;
static struct hrtimer timer;
static int state;

/* What CPU idle=N and the one that goes tell each other */
static bool answered, asleep, wake_up;

static void unplug_sleep(void *unused)
{
	ktime_t end = ktime_add_ms(ktime_get(), UNPLUG_PATIENCE_MS);

	/* Refused if there was something to do: another time */
	WRITE_ONCE(asleep, !cpu_pm_enter());
	/* What it has said of asleep is there: unplug_put_to_sleep() */
	smp_store_release(&answered, true);
	if (!asleep)
		return;
	/* The eventfd has been signalled: unplug_tick() */
	while (!smp_load_acquire(&wake_up) && ktime_before(ktime_get(), end))
		cpu_relax();
	cpu_pm_exit();
	slept++;
}

static call_single_data_t sleep_call = CSD_INIT(unplug_sleep, NULL);

/* Is the other CPU in its low-power state? */
static bool unplug_put_to_sleep(void)
{
	ktime_t end = ktime_add_ms(ktime_get(), UNPLUG_PATIENCE_MS);

	WRITE_ONCE(answered, false);
	WRITE_ONCE(wake_up, false);
	if (smp_call_function_single_async(idle, &sleep_call))
		return false;
	/* asleep is the answer: unplug_sleep() */
	while (!smp_load_acquire(&answered) && ktime_before(ktime_get(), end))
		cpu_relax();

	return answered && asleep;
}

static enum hrtimer_restart unplug_tick(struct hrtimer *t)
{
	bool off = !(csr_read(CSR_HTLCFG) & XTL_HTLCFG_EN);

	/* The CPU is off line, and its timers have moved */
	if (smp_processor_id() != cpu || sent == count)
		return HRTIMER_NORESTART;

	if (idle < 0 || (off && unplug_put_to_sleep())) {
		late += off;
		eventfd_signal(eventfds[sent++]);
		/* The other CPU may go on: unplug_sleep() */
		smp_store_release(&wake_up, true);
	}
	hrtimer_forward_now(t, ns_to_ktime(UNPLUG_PERIOD_NS));

	return HRTIMER_RESTART;
}

static int unplug_down(unsigned int dying)
{
	if (dying == cpu)
		hrtimer_start(&timer, ns_to_ktime(UNPLUG_PERIOD_NS),
			      HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static void unplug_put(unsigned int n)
{
	while (n)
		eventfd_ctx_put(eventfds[--n]);
	kfree(eventfds);
}

static int __init unplug_init(void)
{
	unsigned int i;

	eventfds = kcalloc(count, sizeof(*eventfds), GFP_KERNEL);
	if (!eventfds)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		eventfds[i] = eventfd_ctx_fdget(first + i);
		if (IS_ERR(eventfds[i])) {
			state = PTR_ERR(eventfds[i]);
			unplug_put(i);
			return state;
		}
	}

	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = unplug_tick;
	state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
					  "test/trapless_unplug", NULL,
					  unplug_down);
	if (state < 0)
		unplug_put(count);

	return min(state, 0);
}
module_init(unplug_init);

static void __exit unplug_exit(void)
{
	cpuhp_remove_state_nocalls(state);
	hrtimer_cancel(&timer);
	unplug_put(count);
}
module_exit(unplug_exit);

MODULE_DESCRIPTION("Interrupts on a CPU that goes off line, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");
