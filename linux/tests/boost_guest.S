/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guest of the test "boost": sends IPIs to the others without end, and has its VMM
 * handle a store now and then. Copied to where it runs, so nothing may be addressed
 * absolutely.
 *
 * a1 = struct shared of vm.h: argument is the mask of the others
 */

	.section .rodata
	.option	norvc
	.option	norelax
	.balign	4
	.globl	boost_guest_begin, boost_guest_end
boost_guest_begin:
	mv	s1, a1
	lla	t0, 3f
	csrw	stvec, t0
	csrsi	sie, 2
	csrsi	sstatus, 2
	li	s2, 0
1:	li	a7, 0x735049		/* SBI: send IPIs */
	li	a6, 0
	ld	a0, 16(s1)
	li	a1, 0
	ecall
	li	t0, 300
2:	addi	t0, t0, -1
	bnez	t0, 2b
	addi	s2, s2, 1
	sd	s2, 48(s1)
	andi	t0, s2, 15
	bnez	t0, 1b
	li	t0, 0x10000000
	sw	zero, 0(t0)
	j	1b
	.balign	4
3:	csrr	s3, scause
	bgez	s3, 4f
	ld	s3, 24(s1)
	addi	s3, s3, 1
	sd	s3, 24(s1)
	csrci	sip, 2
	sret
4:	sd	s3, 40(s1)		/* an exception: it ends here */
	ld	s3, 32(s1)
	addi	s3, s3, 1
	sd	s3, 32(s1)
	wfi
	j	.-4
boost_guest_end:
