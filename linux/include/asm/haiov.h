/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HA-IOV 0.1: CSRs, fields, operations and memory structures.
 * Written by `cargo run -p trapless-spec` from spec/haiov.toml; do not edit.
 */
#ifndef _ASM_RISCV_HAIOV_H
#define _ASM_RISCV_HAIOV_H

#include <linux/bits.h>

/* CSR addresses */
#define CSR_USTATUS			0x0
#define CSR_UTVEC			0x5
#define CSR_USCRATCH			0x40
#define CSR_UEPC			0x41
#define CSR_UCAUSE			0x42
#define CSR_UTVAL			0x43
#define CSR_UTINST			0x4a
#define CSR_HUEDELEG			0x6d0

/* Fields of ustatus */
#define HAIOV_USTATUS_UH		BIT_ULL(10)
#define HAIOV_USTATUS_UPV		BIT_ULL(9)
#define HAIOV_USTATUS_UPP		BIT_ULL(8)
#define HAIOV_USTATUS_UPIE		BIT_ULL(4)
#define HAIOV_USTATUS_UIE		BIT_ULL(0)

/* Fields of utvec */
#define HAIOV_UTVEC_BASE		GENMASK_ULL(63, 2)
#define HAIOV_UTVEC_BASE_SHIFT		2
#define HAIOV_UTVEC_MODE		GENMASK_ULL(1, 0)
#define HAIOV_UTVEC_MODE_SHIFT		0

/* Fields of uscratch */
#define HAIOV_USCRATCH_VALUE		GENMASK_ULL(63, 0)
#define HAIOV_USCRATCH_VALUE_SHIFT	0

/* Fields of uepc */
#define HAIOV_UEPC_ADDRESS		GENMASK_ULL(63, 0)
#define HAIOV_UEPC_ADDRESS_SHIFT	0

/* Fields of ucause */
#define HAIOV_UCAUSE_INTERRUPT		BIT_ULL(63)
#define HAIOV_UCAUSE_CODE		GENMASK_ULL(62, 0)
#define HAIOV_UCAUSE_CODE_SHIFT		0

/* Fields of utval */
#define HAIOV_UTVAL_VALUE		GENMASK_ULL(63, 0)
#define HAIOV_UTVAL_VALUE_SHIFT		0

/* Fields of utinst */
#define HAIOV_UTINST_VALUE		GENMASK_ULL(63, 0)
#define HAIOV_UTINST_VALUE_SHIFT	0

/* Fields of huedeleg */
#define HAIOV_HUEDELEG_STORE_MMIO	BIT_ULL(25)
#define HAIOV_HUEDELEG_LOAD_MMIO	BIT_ULL(24)
#define HAIOV_HUEDELEG_STORE_GUEST	BIT_ULL(23)
#define HAIOV_HUEDELEG_VIRTUAL		BIT_ULL(22)
#define HAIOV_HUEDELEG_LOAD_GUEST	BIT_ULL(21)
#define HAIOV_HUEDELEG_ECALL_VS		BIT_ULL(10)

/* Exception codes that the extension adds */
#define HAIOV_CAUSE_LOAD_MMIO		24
#define HAIOV_CAUSE_STORE_MMIO		25

/* Type of a G-stage leaf (bits 58:57 of the entry) */
#define HAIOV_LEAF_MEMORY		0
#define HAIOV_LEAF_MMIO			1

/* Limits and numbers */
#define HAIOV_HSTATUS_HUR_BIT		10
#define HAIOV_LEAF_TYPE_SHIFT		57

#endif /* _ASM_RISCV_HAIOV_H */
