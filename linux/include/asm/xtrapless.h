/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Xtrapless 0.2: CSRs, fields, operations and memory structures.
 * Written by `cargo run -p trapless-spec` from spec/registers.toml; do not edit.
 */
#ifndef _ASM_RISCV_XTRAPLESS_H
#define _ASM_RISCV_XTRAPLESS_H

#include <linux/bits.h>

/* CSR addresses */
#define CSR_UGENVSEI			0x800
#define CSR_SGENIPI			0x5d8
#define CSR_VSCLAIM			0x5d9
#define CSR_VSENABLE			0x5da
#define CSR_VSTHRESHOLD			0x5db
#define CSR_HIFMAP			0x6c0
#define CSR_HTLCFG			0x6c1
#define CSR_HGENVSI			0x6c2
#define CSR_HNOTIFY			0x6c3
#define CSR_HGRANT			0x6c4
#define CSR_HNQBASE			0x6c5
#define CSR_HVTABLEBASE			0x6c6

/* Fields of ugenvsei */
#define XTL_UGENVSEI_OP			GENMASK_ULL(63, 60)
#define XTL_UGENVSEI_OP_SHIFT		60
#define XTL_UGENVSEI_ID			GENMASK_ULL(15, 0)
#define XTL_UGENVSEI_ID_SHIFT		0

/* Fields of sgenipi */
#define XTL_SGENIPI_BASE		GENMASK_ULL(47, 32)
#define XTL_SGENIPI_BASE_SHIFT		32
#define XTL_SGENIPI_MASK		GENMASK_ULL(31, 0)
#define XTL_SGENIPI_MASK_SHIFT		0

/* Fields of vsclaim */
#define XTL_VSCLAIM_ID			GENMASK_ULL(15, 0)
#define XTL_VSCLAIM_ID_SHIFT		0

/* Fields of vsenable */
#define XTL_VSENABLE_E			BIT_ULL(63)
#define XTL_VSENABLE_ID			GENMASK_ULL(15, 0)
#define XTL_VSENABLE_ID_SHIFT		0

/* Fields of vsthreshold */
#define XTL_VSTHRESHOLD_PRIO		GENMASK_ULL(2, 0)
#define XTL_VSTHRESHOLD_PRIO_SHIFT	0

/* Fields of hifmap */
#define XTL_HIFMAP_V			BIT_ULL(63)
#define XTL_HIFMAP_STATE		GENMASK_ULL(57, 56)
#define XTL_HIFMAP_STATE_SHIFT		56
#define XTL_HIFMAP_DOM			GENMASK_ULL(47, 32)
#define XTL_HIFMAP_DOM_SHIFT		32
#define XTL_HIFMAP_VHART		GENMASK_ULL(15, 0)
#define XTL_HIFMAP_VHART_SHIFT		0

/* Fields of htlcfg */
#define XTL_HTLCFG_VERSION		GENMASK_ULL(63, 60)
#define XTL_HTLCFG_VERSION_SHIFT	60
#define XTL_HTLCFG_FLT			BIT_ULL(9)
#define XTL_HTLCFG_ERR			BIT_ULL(8)
#define XTL_HTLCFG_ANY			BIT_ULL(1)
#define XTL_HTLCFG_EN			BIT_ULL(0)

/* Fields of hgenvsi */
#define XTL_HGENVSI_OP			GENMASK_ULL(63, 60)
#define XTL_HGENVSI_OP_SHIFT		60
#define XTL_HGENVSI_DOM			GENMASK_ULL(47, 32)
#define XTL_HGENVSI_DOM_SHIFT		32
#define XTL_HGENVSI_ID			GENMASK_ULL(15, 0)
#define XTL_HGENVSI_ID_SHIFT		0

/* Fields of hnotify */
#define XTL_HNOTIFY_V			BIT_ULL(63)
#define XTL_HNOTIFY_OVF			BIT_ULL(62)
#define XTL_HNOTIFY_KIND		GENMASK_ULL(57, 56)
#define XTL_HNOTIFY_KIND_SHIFT		56
#define XTL_HNOTIFY_DOM			GENMASK_ULL(47, 32)
#define XTL_HNOTIFY_DOM_SHIFT		32
#define XTL_HNOTIFY_ID			GENMASK_ULL(15, 0)
#define XTL_HNOTIFY_ID_SHIFT		0

/* Fields of hgrant */
#define XTL_HGRANT_V			BIT_ULL(63)
#define XTL_HGRANT_DOM			GENMASK_ULL(47, 32)
#define XTL_HGRANT_DOM_SHIFT		32
#define XTL_HGRANT_COUNT		GENMASK_ULL(31, 16)
#define XTL_HGRANT_COUNT_SHIFT		16
#define XTL_HGRANT_FIRST		GENMASK_ULL(15, 0)
#define XTL_HGRANT_FIRST_SHIFT		0

/* Fields of hnqbase */
#define XTL_HNQBASE_EN			BIT_ULL(63)
#define XTL_HNQBASE_PPN			GENMASK_ULL(55, 12)
#define XTL_HNQBASE_PPN_SHIFT		12
#define XTL_HNQBASE_SIZE		GENMASK_ULL(3, 0)
#define XTL_HNQBASE_SIZE_SHIFT		0

/* Fields of hvtablebase */
#define XTL_HVTABLEBASE_V		BIT_ULL(63)
#define XTL_HVTABLEBASE_PPN		GENMASK_ULL(55, 12)
#define XTL_HVTABLEBASE_PPN_SHIFT	12
#define XTL_HVTABLEBASE_SIZE		GENMASK_ULL(4, 0)
#define XTL_HVTABLEBASE_SIZE_SHIFT	0

/* Kinds of notifications (hnotify.KIND) */
#define XTL_KIND_WAKE			1
#define XTL_KIND_YIELD			2
#define XTL_KIND_RESAMPLE		3

/* Operations of ugenvsei and hgenvsi (field OP) */
#define XTL_OP_EDGE			0
#define XTL_OP_ASSERT			1
#define XTL_OP_DEASSERT			2
#define XTL_OP_SOFT			3
#define XTL_OP_EVAL			4
#define XTL_OP_SYNC			5

/* State of a vhart (hifmap.STATE and the state field of its file) */
#define XTL_STATE_STOPPED		0
#define XTL_STATE_PREEMPTED		1
#define XTL_STATE_HALTED		2
#define XTL_STATE_LOADED		3

/* Limits and numbers */
#define XTRAPLESS_NOTIFY_IRQ		24
#define XTRAPLESS_VERSION		1
#define XTRAPLESS_MAX_SOURCES		1023
#define XTRAPLESS_MAX_VHARTS		1024

/* Entry of the domain table (domain) */
#define XTL_DOMAIN_SIZE			32
#define XTL_DOMAIN_CONFIG		0
#define XTL_DOMAIN_CONFIG_V		BIT_ULL(63)
#define XTL_DOMAIN_CONFIG_SOURCES	GENMASK_ULL(31, 16)
#define XTL_DOMAIN_CONFIG_SOURCES_SHIFT	16
#define XTL_DOMAIN_CONFIG_VHARTS	GENMASK_ULL(15, 0)
#define XTL_DOMAIN_CONFIG_VHARTS_SHIFT	0
#define XTL_DOMAIN_VHART_TABLE		8
#define XTL_DOMAIN_SOURCE_TABLE		16
#define XTL_DOMAIN_LINES		24

/* Entry of a vhart table (vhart) */
#define XTL_VHART_SIZE			8
#define XTL_VHART_ENTRY			0
#define XTL_VHART_ENTRY_V		BIT_ULL(63)
#define XTL_VHART_ENTRY_FILE		GENMASK_ULL(55, 10)
#define XTL_VHART_ENTRY_FILE_SHIFT	10

/* Entry of a source table, indexed by source (source) */
#define XTL_SOURCE_SIZE			8
#define XTL_SOURCE_ENTRY		0
#define XTL_SOURCE_ENTRY_V		BIT_ULL(63)
#define XTL_SOURCE_ENTRY_RESAMPLE	BIT_ULL(33)
#define XTL_SOURCE_ENTRY_LEVEL		BIT_ULL(32)
#define XTL_SOURCE_ENTRY_PRIO		GENMASK_ULL(18, 16)
#define XTL_SOURCE_ENTRY_PRIO_SHIFT	16
#define XTL_SOURCE_ENTRY_VHART		GENMASK_ULL(15, 0)
#define XTL_SOURCE_ENTRY_VHART_SHIFT	0

/*
 * What is pending for one vhart. Bytes 0..512 have the layout of an AIA memory-resident interrupt
 * file (MRIF) (file)
 */
#define XTL_FILE_SIZE			1024
#define XTL_FILE_PENDING		0
#define XTL_FILE_PENDING_STRIDE		16
#define XTL_FILE_PENDING_COUNT		16
#define XTL_FILE_ENABLE			8
#define XTL_FILE_ENABLE_STRIDE		16
#define XTL_FILE_ENABLE_COUNT		16
#define XTL_FILE_CTL			512
#define XTL_FILE_CTL_HART		GENMASK_ULL(31, 16)
#define XTL_FILE_CTL_HART_SHIFT		16
#define XTL_FILE_CTL_STATE		GENMASK_ULL(9, 8)
#define XTL_FILE_CTL_STATE_SHIFT	8
#define XTL_FILE_CTL_ON			BIT_ULL(1)
#define XTL_FILE_CTL_SOFT		BIT_ULL(0)
#define XTL_FILE_THRESHOLD		520

#endif /* _ASM_RISCV_XTRAPLESS_H */
