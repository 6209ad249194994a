/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _IRQ_RISCV_TRAPLESS_IPI_H
#define _IRQ_RISCV_TRAPLESS_IPI_H

unsigned long riscv_trapless_ipi_excess(void);

#endif /* _IRQ_RISCV_TRAPLESS_IPI_H */
