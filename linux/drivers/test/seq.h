/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trapless_seq: numbers interrupts and checks that each arrives exactly once,
 * where it should.  seq_main.c has the overview.
 */
#ifndef _TRAPLESS_SEQ_H
#define _TRAPLESS_SEQ_H

#include <linux/cpumask.h>
#include <linux/prandom.h>
#include <linux/seq_file.h>
#include <linux/types.h>

/**
 * enum seq_error - what can go wrong with a numbered interrupt
 * @SEQ_LOST:		did not come within the time-out
 * @SEQ_DUPLICATE:	came although none was owed
 * @SEQ_EARLY:		timer interrupt before its time
 * @SEQ_MISDELIVERED:	came to a CPU it was not meant for
 * @SEQ_FAILED:		the test itself could not do something
 * @SEQ_ERRORS:		number of kinds
 */
enum seq_error {
	SEQ_LOST,
	SEQ_DUPLICATE,
	SEQ_EARLY,
	SEQ_MISDELIVERED,
	SEQ_FAILED,
	SEQ_ERRORS
};

/* Parameters of the module; see seq_main.c. */
extern unsigned long seq_timers;
extern unsigned long seq_ipis;
extern unsigned long seq_devices;
extern unsigned int seq_timer_ns;
extern unsigned int seq_late_ns;
extern unsigned int seq_slow_ms;
extern unsigned int seq_ipi_us;
extern unsigned int seq_affinity_ms;
extern unsigned int seq_device_us;
extern unsigned int seq_linger_us;
extern unsigned int seq_burst;
extern int seq_kind;
extern unsigned int seq_sources;
extern unsigned int seq_seed;

/* CPUs that take part: those online when the test began; they stay online. */
extern struct cpumask seq_cpus;

/* Set when the test shall end, whether or not everything was sent. */
extern bool seq_stopping;

/* Whether @kthread_stop or the end of the test asks a thread to end. */
bool seq_should_stop(void);

/* Reports an error; from any context. */
__printf(2, 3) void seq_error(enum seq_error kind, const char *format, ...);

/*
 * What ends by itself: a timer, a sender of IPIs, a source.  When all have
 * ended the main thread looks, from whatever context.
 */
void seq_add_parts(unsigned int number);
void seq_part_ended(void);

/* Stagnation of something owed, seen by the main thread 50 times a second. */
struct seq_watch {
	u64 last;
	unsigned int stuck;
};

/* True once, when @value has not changed for the time-out while @owed. */
bool seq_watch(struct seq_watch *watch, u64 value, bool owed);

/*
 * Each class: start() begins (0, or an error: nothing was begun), busy() is
 * called by the main thread 50 times a second, looks for lost interrupts and
 * tells whether some are still to come, stop() ends it and waits for what is
 * under way, show() prints counts, total() is the number of interrupts that
 * came.  stop() returns false if something lost may still arrive.
 */
int seq_timer_start(void);
bool seq_timer_busy(void);
void seq_timer_stop(void);
void seq_timer_exit(void);
void seq_timer_show(struct seq_file *m);
u64 seq_timer_total(void);

int seq_ipi_start(void);
bool seq_ipi_busy(void);
bool seq_ipi_stop(void);
void seq_ipi_free(void);
void seq_ipi_show(struct seq_file *m);
u64 seq_ipi_total(void);

int seq_device_init(void);
void seq_device_exit(void);
int seq_device_start(void);
bool seq_device_busy(void);
void seq_device_stop(void);
void seq_device_show(struct seq_file *m);
u64 seq_device_total(void);

#endif /* _TRAPLESS_SEQ_H */
