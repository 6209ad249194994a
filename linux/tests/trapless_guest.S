/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guest of trapless_test: enables every source, then waits and counts what it is
 * interrupted with. Copied to where it runs, so nothing may be addressed
 * absolutely.
 *
 * a0 = hart, a1 = struct shared of vm.h
 */

#define PATTERN		0x5a5

	.section .rodata
	.option	norvc
	.option	norelax
	.balign	4
	.globl	guest_begin, guest_end
guest_begin:
	mv	s1, a1
	lla	t0, guest_trap
	csrw	stvec, t0
	li	t0, 16		/* enable every source */
1:	li	t1, 1
	slli	t1, t1, 63
	or	t1, t1, t0
	csrw	0x5da, t1
	addi	t0, t0, -1
	bnez	t0, 1b
	csrsi	sstatus, 2
2:	ld	t0, 0(s1)
	csrw	sie, t0
	ld	t0, 48(s1)
	addi	t0, t0, 1
	sd	t0, 48(s1)
	ld	t0, 8(s1)
	beqz	t0, 5f
	ld	t1, 16(s1)
	li	t2, 1
	bne	t0, t2, 3f
	ld	t2, 200(s1)
	csrw	0x5d8, t1
	addi	t2, t2, -1
	bgtz	t2, .-8
	j	4f
3:	addi	t2, t2, 2
	beq	t0, t2, 10f
	bgt	t0, t2, 20f
	csrw	0x6c2, t1
4:	sd	zero, 8(s1)
	j	2b
5:	wfi
	j	2b
10:	ld	t2, 208(s1)		/* a request: its number, and a kick */
	addi	t2, t2, 1
	sd	t2, 208(s1)
	fence	rw, ow
	sw	zero, 0(t1)
11:	ld	t0, 216(s1)		/* the answer */
	bne	t0, t2, 11b
	ld	t2, 200(s1)
	addi	t2, t2, -1
	sd	t2, 200(s1)
	bgtz	t2, 10b
	j	4b
20:	ld	t3, 200(s1)
	li	t2, 5
	beq	t0, t2, 22f
	li	t2, 6
	beq	t0, t2, 24f
	li	t2, 7
	beq	t0, t2, 27f
	li	t2, 8
	beq	t0, t2, 29f
21:	sw	zero, 0(t1)		/* kicks without a request */
	ld	t3, 200(s1)
	addi	t3, t3, -1
	sd	t3, 200(s1)
	bgtz	t3, 21b
	j	4b
22:	lui	t3, 1			/* all widths, everywhere in a page */
	add	t3, t3, t1
	li	t4, -1
23:	sb	t4, 0(t1)
	sh	t4, 0(t1)
	sw	t4, 0(t1)
	sd	t4, 0(t1)
	sb	t4, 1(t1)
	sh	t4, 2(t1)
	sw	t4, 4(t1)
	lbu	t5, 0(t1)
	lhu	t5, 2(t1)
	lwu	t5, 4(t1)
	ld	t5, 0(t1)
	addi	t1, t1, 8
	bne	t1, t3, 23b
	addi	t1, t1, -8		/* KVM refuses: in two words, atomic, in two pages */
	sw	t4, 1(t1)
	amoadd.w t5, t4, (t1)
	lr.d	t5, (t1)
	sc.d	t5, t4, (t1)
	sd	t4, 4(t1)
	j	4b
24:	csrr	t0, time		/* longest time between two looks at the time */
25:	csrr	t2, time
	sub	t4, t2, t0
	mv	t0, t2
	ld	t5, 224(s1)
	bgeu	t5, t4, 26f
	sd	t4, 224(s1)
26:	ld	t3, 240(s1)
	addi	t3, t3, 1
	sd	t3, 240(s1)
	ld	t3, 200(s1)
	bnez	t3, 25b
	j	4b
27:	li	t0, 0x6000		/* registers that somebody else changes */
	csrs	sstatus, t0
28:	csrw	sscratch, s1
	li	x1, PATTERN
	.irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	addi	x\n, x1, \n
	fmv.d.x	f\n, x\n
	.endr
	.rept	200
	nop
	.endr
	csrrw	x1, sscratch, x1
	.irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	sd	x\n, 256 + 8 * \n(x1)
	.endr
	mv	s1, x1
	ld	t4, 232(s1)
	li	t2, PATTERN
	csrr	t1, sscratch
	sub	t1, t1, t2
	snez	t1, t1
	add	t4, t4, t1
	.irp n, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	addi	t3, t2, \n
	ld	t1, 256 + 8 * \n(s1)
	sub	t1, t1, t3
	snez	t1, t1
	add	t4, t4, t1
	fmv.x.d	t1, f\n
	sub	t1, t1, t3
	snez	t1, t1
	add	t4, t4, t1
	.endr
	sd	t4, 232(s1)
	ld	t1, 256(s1)		/* rounds */
	addi	t1, t1, 1
	sd	t1, 256(s1)
	ld	t3, 200(s1)
	bnez	t3, 28b
	j	4b
29:	csrw	0x5d0, t1		/* sgenvei */
	ld	t3, 200(s1)
	addi	t3, t3, -1
	sd	t3, 200(s1)
	bgtz	t3, 29b
	j	4b
	.balign	4
guest_trap:
	csrw	sscratch, t0
	csrr	t0, scause
	bgez	t0, 9f
	andi	t0, t0, 15
	addi	t0, t0, -9
	beqz	t0, 7f
	csrci	sip, 2
	ld	t0, 24(s1)
	addi	t0, t0, 1
	sd	t0, 24(s1)
	j	8f
7:	csrr	s2, 0x5d9		/* claim */
	beqz	s2, 8f
	slli	s3, s2, 3
	add	s3, s3, s1
	ld	t0, 56(s3)
	addi	t0, t0, 1
	sd	t0, 56(s3)
6:	ld	t0, 192(s1)
	bnez	t0, 6b
	csrw	0x5d9, s2		/* complete */
	j	7b
8:	csrr	t0, sscratch
	sret
9:	sd	t0, 40(s1)
	ld	t0, 32(s1)
	addi	t0, t0, 1
	sd	t0, 32(s1)
	csrr	t0, sepc
	addi	t0, t0, 4
	csrw	sepc, t0
	j	8b
guest_end:
