/* SPDX-License-Identifier: GPL-2.0-only */
/* Header of a Linux Image, and where harts begin. */

	/* Documentation/arch/riscv/boot-image-header.rst */
	.section .head, "ax"
	.option	norvc
	.globl	_start
_start:
	j	start
	.word	0
	.quad	0x200000		/* text_offset */
	.quad	image_size
	.quad	0			/* flags: little-endian */
	.word	2			/* version 0.2 */
	.word	0
	.quad	0
	.ascii	"RISCV\0\0\0"
	.ascii	"RSC\x05"
	.word	0

	.text
/* a0 = hart, a1 = device tree */
start:
	csrw	sie, zero
	la	t0, bss_begin
	la	t1, bss_end
1:	sd	zero, 0(t0)
	addi	t0, t0, 8
	bltu	t0, t1, 1b
	la	sp, first_stack
	li	t0, 4096
	add	sp, sp, t0
	la	t0, trap
	csrw	stvec, t0
	j	first

/* a0 = hart, a1 = end of its stack, as hart_start was told */
	.globl	start_second
start_second:
	csrw	sie, zero
	mv	sp, a1
	la	t0, trap
	csrw	stvec, t0
	j	second
