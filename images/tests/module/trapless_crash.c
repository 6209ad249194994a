// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_crash: panics in an interrupt that came while a vCPU is attached and
 * its timer runs, for the system tests.
 */

#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/panic.h>
#include <linux/smp.h>

#include <asm/csr.h>
#include <asm/xtrapless.h>

#define CRASH_PERIOD_NS		100000

static unsigned int cpu;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "CPU that panics (default 0)");

static struct hrtimer timer;

static enum hrtimer_restart crash_tick(struct hrtimer *t)
{
	if ((csr_read(CSR_HIFMAP) & XTL_HIFMAP_V) &&
	    (csr_read(CSR_HIE) & BIT(IRQ_VS_TIMER)))
		panic("trapless_crash: as the test wants it");
	hrtimer_forward_now(t, ns_to_ktime(CRASH_PERIOD_NS));

	return HRTIMER_RESTART;
}

static void crash_start(void *unused)
{
	hrtimer_start(&timer, ns_to_ktime(CRASH_PERIOD_NS),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

static int __init crash_init(void)
{
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = crash_tick;

	return smp_call_function_single(cpu, crash_start, NULL, 1);
}
module_init(crash_init);

MODULE_DESCRIPTION("Panic with a vCPU attached, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");
