/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Numbers that the series adds to <linux/kvm.h>, for programs that are built with
 * a header without them. linux/series compares them with what it patches.
 */
#ifndef __TRAPLESS_KVM_NUMBERS_H
#define __TRAPLESS_KVM_NUMBERS_H

#include <linux/kvm.h>

/* KVM_CHECK_EXTENSION: number of interrupt domains, 0 without Xtrapless ... */
#ifndef KVM_CAP_RISCV_TRAPLESS
#define KVM_CAP_RISCV_TRAPLESS		239
/* ... and 1 if the harts have Xuer, Xvei, Xhcs */
#define KVM_CAP_RISCV_UER		240
#define KVM_CAP_RISCV_VEI		241
#define KVM_CAP_RISCV_UCTX		242
#endif

/* KVM_CREATE_DEVICE */
#ifndef KVM_DEV_TYPE_RISCV_TRAPLESS
#define KVM_DEV_TYPE_RISCV_TRAPLESS	12
#define KVM_DEV_TYPE_RISCV_UER		13
#define KVM_DEV_TYPE_RISCV_VEI		14
#define KVM_DEV_TYPE_RISCV_UCTX		15
#endif

/* kvm_run.exit_reason */
#ifndef KVM_EXIT_RISCV_UER
#define KVM_EXIT_RISCV_UER		40
#endif

#endif /* __TRAPLESS_KVM_NUMBERS_H */
