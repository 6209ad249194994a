/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accesses to the controller and to the memory that KVM shares with it
 */

#ifndef __TRAPLESS_H
#define __TRAPLESS_H

#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <asm/barrier.h>
#include <asm/csr.h>
#include <asm/kvm_vcpu_trapless.h>
#include <asm/xtrapless.h>

/* Custom state in mstateen0, hstateen0 and sstateen0 */
#define TRAPLESS_STATEEN0_C	BIT(0)

/* Word of a file or bitmap which the controller changes at any time */
static inline atomic64_t *trapless_word(void *base, unsigned int offset)
{
	return base + offset;
}

static inline atomic64_t *trapless_pending(void *file, u32 source)
{
	return trapless_word(file, XTL_FILE_PENDING +
			     source / 64 * XTL_FILE_PENDING_STRIDE);
}

static inline atomic64_t *trapless_enabled(void *file, u32 source)
{
	return trapless_word(file, XTL_FILE_ENABLE +
			     source / 64 * XTL_FILE_ENABLE_STRIDE);
}

static inline atomic64_t *trapless_ctl(void *file)
{
	return trapless_word(file, XTL_FILE_CTL);
}

/*
 * One operation of the controller. Everything written to memory before is
 * seen by the lookups that the operation starts.
 */
static inline void trapless_op(unsigned long op, u32 domain, u32 id)
{
	/* CSR accesses are ordered like device I/O: memory first ... */
	mb();
	csr_write(CSR_HGENVSI, FIELD_PREP(XTL_HGENVSI_OP, op) |
			       FIELD_PREP(XTL_HGENVSI_DOM, domain) |
			       FIELD_PREP(XTL_HGENVSI_ID, id));
	/* ... and what follows sees what the operation did. */
	mb();
}

#endif /* __TRAPLESS_H */
