/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Numbers that the series adds to <linux/kvm.h>, for programs that are built with
 * a header without them. linux/series compares them with what it patches. They are
 * far from those of Linux, which has given the next ones to others since.
 */
#ifndef __TRAPLESS_KVM_NUMBERS_H
#define __TRAPLESS_KVM_NUMBERS_H

#include <linux/kvm.h>

/* KVM_CHECK_EXTENSION: number of interrupt domains, 0 without Xtrapless ... */
#ifndef KVM_CAP_RISCV_TRAPLESS
#define KVM_CAP_RISCV_TRAPLESS		1000
/* ... and 1 if the harts have Xuer, Xvei, Xhcs */
#define KVM_CAP_RISCV_UER		1001
#define KVM_CAP_RISCV_VEI		1002
#define KVM_CAP_RISCV_UCTX		1003
#endif

/* KVM_ENABLE_CAP: WFI of the guest waits on the hart */
#ifndef KVM_CAP_RISCV_DISABLE_EXITS
#define KVM_CAP_RISCV_DISABLE_EXITS	1004
#define KVM_RISCV_DISABLE_EXITS_WFI	(1 << 0)
#endif

/* KVM_CREATE_DEVICE */
#ifndef KVM_DEV_TYPE_RISCV_TRAPLESS
#define KVM_DEV_TYPE_RISCV_TRAPLESS	1000
#define KVM_DEV_TYPE_RISCV_UER		1001
#define KVM_DEV_TYPE_RISCV_VEI		1002
#define KVM_DEV_TYPE_RISCV_UCTX		1003
#endif

/* kvm_run.exit_reason */
#ifndef KVM_EXIT_RISCV_UER
#define KVM_EXIT_RISCV_UER		1000
#endif

#endif /* __TRAPLESS_KVM_NUMBERS_H */
