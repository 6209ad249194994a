// SPDX-License-Identifier: Apache-2.0 OR MIT
// Encodings of the CSR port of a hart, of the memory port, and of what a hart asks the engine for.

`ifndef XTL_PORT_VH
`define XTL_PORT_VH

// req_op: what the CSR instruction does. Immediate forms are like the others.
`define PORT_READ   3'd0  // csrrs, csrrc with rs1=x0 (or immediate 0)
`define PORT_WRITE  3'd1  // csrrw with rd=x0
`define PORT_SWAP   3'd2  // csrrw with another rd
`define PORT_SET    3'd3  // csrrs with another rs1
`define PORT_CLEAR  3'd4  // csrrc with another rs1

// req_mode: V, then the privilege.
`define MODE_M      3'b011
`define MODE_HS     3'b001
`define MODE_U      3'b000
`define MODE_VS     3'b101
`define MODE_VU     3'b100

// rsp_fault.
`define FAULT_NONE    2'd0
`define FAULT_ILLEGAL 2'd1  // illegal-instruction exception
`define FAULT_VIRTUAL 2'd2  // virtual-instruction exception

// mem_op. Both atomic operations answer with what the word was.
`define MEM_LOAD    2'd0
`define MEM_STORE   2'd1
`define MEM_MERGE   2'd2  // atomic: bits of mem_mask become those of mem_wdata
`define MEM_MARK    2'd3  // atomic: the same, if the word says HALTED or PREEMPTED (DEL-9)

// Standard CSRs that the port takes.
`define CSR_VSIP      12'h244
`define CSR_STIMECMP  12'h14d
`define CSR_VSTIMECMP 12'h24d

// What a hart asks the engine for.
`define JOB_POST      4'd0   // one target of a guest's sgenipi
`define JOB_SEND      4'd1   // sgenipi of HS- and M-mode
`define JOB_CLAIM     4'd2   // vsclaim
`define JOB_ENABLE    4'd3   // vsenable
`define JOB_THRESHOLD 4'd4   // vsthreshold
`define JOB_SSIP      4'd5   // write of vsip.SSIP
`define JOB_MAP       4'd6   // write of hifmap
`define JOB_CONFIG    4'd7   // write of htlcfg
`define JOB_QUEUE     4'd8   // write of hnqbase
`define JOB_TABLES    4'd9   // write of hvtablebase
`define JOB_NOTIFY    4'd10  // read of hnotify
`define JOB_GENERATE  4'd11  // hgenvsi, ugenvsei
`define JOB_SYNC      4'd12  // hgenvsi with SYNC

`endif // XTL_PORT_VH
