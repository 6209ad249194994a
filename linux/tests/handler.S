/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Handler of a user context in contexts.c: notes what registers it finds, answers
 * requests, and does what it must not if it is told to.
 *
 * uscratch = struct state of contexts.c
 */

#define USCRATCH	0x040
#define UTVAL		0x043
#define URET		.word 0x00200073

	.text
	.option	norvc
	.balign	4
	.globl	handler
handler:
	csrrw	t0, USCRATCH, t0
	.irp	n, 1,2,3,4,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	sd	x\n, 8 * \n(t0)
	.endr
	csrrw	t1, USCRATCH, t0
	sd	t1, 40(t0)
	csrr	t1, UTVAL
	sd	t1, 256(t0)
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
