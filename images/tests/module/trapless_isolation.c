// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_isolation: a hostile guest kernel, for the system tests.
 *
 * insmod tries the registers that belong to the host or to user space, and
 * numbers of vharts and sources that the guest does not have, then floods:
 *
 *	tries		accesses that must be illegal instructions
 *	reached		those that were not (must be 0)
 *	strange		wrong values read where an access is allowed (must be 0)
 *
 * target=N loops=N only sends software interrupts to vhart N.
 */

#define pr_fmt(fmt) "trapless_isolation: " fmt

#include <linux/bitfield.h>
#include <linux/cpumask.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/stringify.h>

#include <asm/asm-extable.h>
#include <asm/csr.h>
#include <asm/xtrapless.h>

static unsigned int tries;
module_param(tries, uint, 0444);
MODULE_PARM_DESC(tries, "Result: accesses that must be illegal");

static unsigned int reached;
module_param(reached, uint, 0444);
MODULE_PARM_DESC(reached, "Result: those that were not");

static unsigned int strange;
module_param(strange, uint, 0444);
MODULE_PARM_DESC(strange, "Result: wrong values that were read");

static int target = -1;
module_param(target, int, 0444);
MODULE_PARM_DESC(target, "Only send to this vhart");

static unsigned int loops = 1000;
module_param(loops, uint, 0444);
MODULE_PARM_DESC(loops, "Software interrupts of a flood (default 1000)");

/* True if @insn is illegal; it may use %1 as operand and t0 as result. */
#define IS_ILLEGAL(insn, value)						\
({									\
	unsigned long illegal_, in_ = (value);				\
									\
	asm volatile("	li	%0, 1\n"				\
		     "1:	" insn "\n"				\
		     "	li	%0, 0\n"				\
		     "2:\n"						\
		     _ASM_EXTABLE(1b, 2b)				\
		     : "=&r" (illegal_) : "r" (in_) : "t0", "memory");	\
	illegal_;							\
})

static void must_be_illegal(bool illegal, const char *csr, const char *how)
{
	tries++;
	if (illegal)
		return;
	reached++;
	pr_err("%s: %s got through\n", csr, how);
}

#define TRY_WRITE(csr, value)						\
	must_be_illegal(IS_ILLEGAL("csrw " __stringify(csr) ", %1",	\
				   value), #csr, "write")

#define TRY_ALL(csr)							\
do {									\
	must_be_illegal(IS_ILLEGAL("csrr t0, " __stringify(csr), 0),	\
			#csr, "read");					\
	must_be_illegal(IS_ILLEGAL("csrs " __stringify(csr) ", %1", 1),	\
			#csr, "set");					\
	must_be_illegal(IS_ILLEGAL("csrc " __stringify(csr) ", %1", 1),	\
			#csr, "clear");					\
	TRY_WRITE(csr, 0);						\
	TRY_WRITE(csr, ~0UL);						\
} while (0)

/* What the host or user space alone may do, with operands that would hurt. */
static void try_foreign(void)
{
	unsigned long domain, op;

	TRY_ALL(CSR_UGENVSEI);
	TRY_ALL(CSR_HIFMAP);
	TRY_ALL(CSR_HTLCFG);
	TRY_ALL(CSR_HGENVSI);
	TRY_ALL(CSR_HNOTIFY);
	TRY_ALL(CSR_HGRANT);
	TRY_ALL(CSR_HNQBASE);
	TRY_ALL(CSR_HVTABLEBASE);
	for (domain = 0; domain < 4; domain++) {
		TRY_WRITE(CSR_HIFMAP, XTL_HIFMAP_V |
				      FIELD_PREP(XTL_HIFMAP_DOM, domain));
		TRY_WRITE(CSR_HGRANT, XTL_HGRANT_V |
				      FIELD_PREP(XTL_HGRANT_DOM, domain) |
				      FIELD_PREP(XTL_HGRANT_COUNT, 64) | 1);
		for (op = XTL_OP_EDGE; op <= XTL_OP_SYNC; op++) {
			TRY_WRITE(CSR_HGENVSI,
				  FIELD_PREP(XTL_HGENVSI_OP, op) |
				  FIELD_PREP(XTL_HGENVSI_DOM, domain) | 1);
			TRY_WRITE(CSR_UGENVSEI,
				  FIELD_PREP(XTL_UGENVSEI_OP, op) | domain);
		}
	}
	/* Registers of the guest, in ways they do not allow */
	must_be_illegal(IS_ILLEGAL("csrs " __stringify(CSR_VSCLAIM) ", %1", 1),
			"CSR_VSCLAIM", "set");
	must_be_illegal(IS_ILLEGAL("csrc " __stringify(CSR_VSCLAIM) ", %1", 1),
			"CSR_VSCLAIM", "clear");
	must_be_illegal(IS_ILLEGAL("csrs " __stringify(CSR_SGENIPI) ", %1", 1),
			"CSR_SGENIPI", "set");
	must_be_illegal(IS_ILLEGAL("csrs " __stringify(CSR_VSENABLE) ", %1", 1),
			"CSR_VSENABLE", "set");
}

static void check(bool right, const char *what)
{
	if (right)
		return;
	strange++;
	pr_err("%s\n", what);
}

/* Numbers that the guest does not have: allowed, and without any effect. */
static void try_numbers(void)
{
	unsigned long base, id, flags, before;

	check(csr_read(CSR_SGENIPI) == 0, "sgenipi is readable");
	check(csr_read(CSR_VSENABLE) == 0, "vsenable is readable");

	/* A vhart that exists gets nothing but what its driver ignores. */
	for (base = num_possible_cpus(); base <= 0xffff; base += 31)
		csr_write(CSR_SGENIPI, FIELD_PREP(XTL_SGENIPI_BASE, base) |
				       XTL_SGENIPI_MASK);
	/* BASE + i must not wrap around to vhart 0. */
	csr_write(CSR_SGENIPI, XTL_SGENIPI_BASE | XTL_SGENIPI_MASK);
	/* Fields that are reserved name no domain. */
	csr_write(CSR_SGENIPI, GENMASK_ULL(63, 48));

	local_irq_save(flags);
	before = csr_read(CSR_VSTHRESHOLD);
	/* No source is urgent enough to be claimed meanwhile. */
	csr_write(CSR_VSTHRESHOLD, 7);
	check(csr_read(CSR_VSTHRESHOLD) == 7, "vsthreshold is no register");
	for (id = XTRAPLESS_MAX_SOURCES - 4; id <= 0xffff; id += 5) {
		csr_write(CSR_VSENABLE, XTL_VSENABLE_E | id);
		csr_write(CSR_VSCLAIM, id);
	}
	csr_write(CSR_VSENABLE, XTL_VSENABLE_E);
	csr_write(CSR_VSCLAIM, 0);
	check(csr_read(CSR_VSCLAIM) == 0, "something is claimed");
	csr_write(CSR_VSTHRESHOLD, before);
	local_irq_restore(flags);
}

/* Software interrupts as fast as possible, to whatever state @hart is in. */
static void flood(unsigned int hart)
{
	unsigned long value = FIELD_PREP(XTL_SGENIPI_BASE, hart) | 1;
	unsigned int i;

	for (i = 0; i < loops; i++)
		csr_write(CSR_SGENIPI, value);
}

static int __init isolation_init(void)
{
	unsigned long flags;

	if (target < 0) {
		try_foreign();
		try_numbers();
	} else {
		flood(target);
		local_irq_save(flags);
		flood(target);
		local_irq_restore(flags);
	}
	return 0;
}
module_init(isolation_init);

static void __exit isolation_exit(void)
{
}
module_exit(isolation_exit);

MODULE_DESCRIPTION("Hostile guest kernel, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");
