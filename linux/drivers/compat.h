/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of Linux 7.2 that 6.12, which still has the macro from_timer(), lacks.
 */

#ifndef TRAPLESS_COMPAT_H
#define TRAPLESS_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/irqnr.h>
#include <linux/timer.h>

#ifdef from_timer
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}

static inline unsigned int irq_get_nr_irqs(void)
{
	return nr_irqs;
}
#endif

#endif /* TRAPLESS_COMPAT_H */
