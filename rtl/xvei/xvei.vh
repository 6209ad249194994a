// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a hart asks the engine of Xvei for, and how an access to a doorbell page ends.

`ifndef XVEI_VH
`define XVEI_VH

`define XVEI_JOB_REQUEST 3'd0  // sgenvei
`define XVEI_JOB_ENTRY   3'd1  // hgenvei
`define XVEI_JOB_CLAIM   3'd2  // read of hveiclaim
`define XVEI_JOB_QUEUE   3'd3  // write of hveiq
`define XVEI_JOB_PAGE    3'd4  // load from or store to a doorbell page

// rsp_fault of an access to a doorbell page (VEI-5)
`define XVEI_FAULT_GUEST 2'd1  // guest-page fault
`define XVEI_FAULT_MMIO  2'd2  // what an access through an MMIO leaf raises

`endif // XVEI_VH
