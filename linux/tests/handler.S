/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Handler of a user context in contexts.c: notes what registers it finds, answers
 * requests, and does what it must not if it is told to.
 *
 * uscratch = struct state of contexts.c
 */

#define USTATUS		0x880
#define UTVEC		0x885
#define USCRATCH	0x8c0
#define UEPC		0x8c1
#define UCAUSE		0x8c2
#define UTVAL		0x8c3
#define UTINST		0x8ca
#define UGENVSEI	0x800
#define URET		.word 0x8c000073

	.text
	.option	norvc
	.balign	4
	.globl	handler, handler_end, injector, ioctl_with_floats
handler:
	csrrw	t0, USCRATCH, t0
	.irp	n, 1,2,3,4,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	sd	x\n, 8 * \n(t0)
	.endr
	csrrw	t1, USCRATCH, t0
	sd	t1, 40(t0)
	csrr	t1, UTVAL
	sd	t1, 256(t0)
	csrr	t1, USTATUS
	sd	t1, 296(t0)
	csrr	t1, UTVEC
	sd	t1, 304(t0)
	csrr	t1, UEPC
	sd	t1, 312(t0)
	csrr	t1, UCAUSE
	sd	t1, 320(t0)
	csrr	t1, UTINST
	sd	t1, 328(t0)
	ld	t1, 264(t0)		/* beginnings */
	addi	t1, t1, 1
	sd	t1, 264(t0)
	ld	t1, 272(t0)		/* what else to do */
	li	t2, 1
	beq	t1, t2, 1f
	li	t2, 2
	beq	t1, t2, 2f
	li	t2, 3
	beq	t1, t2, 3f
	li	t2, 4
	beq	t1, t2, 4f
	li	t2, 5
	beq	t1, t2, 6f
	li	t2, 6
	beq	t1, t2, 8f
	li	t2, 7
	beq	t1, t2, 10f
	li	t2, 8
	beq	t1, t2, 11f
5:	ld	t1, 288(t0)		/* struct shared of the guest */
	ld	t2, 208(t1)
	fence	rw, rw
	sd	t2, 216(t1)
	URET
1:	ld	t1, 272(t0)		/* without end, unless told otherwise */
	bnez	t1, 1b
	j	5b
2:	ecall
3:	fcvt.d.w ft0, zero
	URET
4:	ld	t1, 280(t0)		/* access to an address */
	sd	zero, 0(t1)
	j	5b
6:	li	t2, 40000		/* longer than its budget */
7:	addi	t2, t2, -1
	bnez	t2, 7b
	j	5b
8:	lla	t2, 5b			/* returns by a stack that others write to */
	ld	t1, 280(t0)
	sd	t2, 0(t1)
	li	t2, 100000
9:	addi	t2, t2, -1
	bnez	t2, 9b
	ld	t2, 0(t1)
	jr	t2
10:	li	t1, -1			/* registers that it may write */
	csrw	USTATUS, t1
	csrw	UEPC, t1
	csrw	UCAUSE, t1
	csrw	UTVAL, t1
	csrw	UTINST, t1
	csrw	USCRATCH, t1
	li	t1, 0x1000
	csrw	UTVEC, t1
	j	5b
11:	li	t2, 9000		/* nearly as long as its budget */
12:	addi	t2, t2, -1
	bnez	t2, 12b
	j	5b
handler_end:

/* Handler that injects. uscratch = struct injected of context_rights.c */
	.balign	4
injector:
	csrr	t0, USCRATCH
	ld	t2, 8(t0)
	csrw	UGENVSEI, t2
	ld	t1, 0(t0)
	addi	t1, t1, 1
	sd	t1, 0(t0)
	URET

/*
 * ioctl() with a pattern in all floating-point registers. Returns its result or
 * error, and adds to *a3 how many registers have changed.
 */
ioctl_with_floats:
	addi	sp, sp, -96
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11
	fsd	fs\n, 8 * \n(sp)
	.endr
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	li	t1, 0x3a0 + \n
	fmv.d.x	f\n, t1
	.endr
	li	a7, 29
	ecall
	ld	t2, 0(a3)
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	li	t0, 0x3a0 + \n
	fmv.x.d	t1, f\n
	sub	t1, t1, t0
	snez	t1, t1
	add	t2, t2, t1
	.endr
	sd	t2, 0(a3)
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11
	fld	fs\n, 8 * \n(sp)
	.endr
	addi	sp, sp, 96
	ret
