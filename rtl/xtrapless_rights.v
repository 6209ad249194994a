// SPDX-License-Identifier: Apache-2.0 OR MIT
// Who may access which CSR (chapter "Access from each mode, and reset"). What Smstateen forbids
// (INT-1), and the rights of vsip, stimecmp and vstimecmp, the core has checked before.

`include "generated/xtrapless.vh"
`include "port.vh"

module xtrapless_rights #(
    parameter H = 1  // The harts have the hypervisor extension.
) (
    input  wire [11:0] csr,
    input  wire [2:0]  op,
    input  wire [2:0]  mode,
    input  wire [3:0]  operation,  // OP of the operand of ugenvsei
    input  wire [15:0] source,     // its ID
    input  wire        slot_v,
    input  wire        en,         // htlcfg.EN
    input  wire        grant_v,
    input  wire [15:0] grant_first,
    input  wire [15:0] grant_count,
    output reg  [1:0]  fault
);
    wire guest = mode[2];
    wire user = mode == `MODE_U;
    wire writes = op == `PORT_WRITE || op == `PORT_SWAP;
    // CSR-1: bits of an operation can be neither set nor cleared.
    wire bits = op == `PORT_SET || op == `PORT_CLEAR;

    // CSR-7: the sum does not wrap around.
    wire [16:0] grant_end = {1'b0, grant_first} + {1'b0, grant_count};
    wire granted = operation <= `XTL_OP_DEASSERT
        && source >= grant_first && {1'b0, source} < grant_end;

    always @* begin
        fault = `FAULT_NONE;
        case (csr)
            `CSR_VSIP, `CSR_STIMECMP, `CSR_VSTIMECMP:
                fault = H != 0 || csr == `CSR_STIMECMP ? `FAULT_NONE : `FAULT_ILLEGAL;
            `XTL_CSR_SGENIPI: begin
                if (user)
                    fault = `FAULT_ILLEGAL;
                else if (mode == `MODE_VU || (guest && (!slot_v || bits)))
                    fault = `FAULT_VIRTUAL;
                else if (bits)
                    fault = `FAULT_ILLEGAL;
            end
            `XTL_CSR_VSCLAIM, `XTL_CSR_VSENABLE, `XTL_CSR_VSTHRESHOLD: begin
                if (!guest)
                    fault = `FAULT_ILLEGAL;
                else if (mode == `MODE_VU || !slot_v)
                    fault = `FAULT_VIRTUAL;
                else if (bits && csr != `XTL_CSR_VSTHRESHOLD)
                    fault = `FAULT_VIRTUAL;
            end
            `XTL_CSR_UGENVSEI: begin
                if (guest)
                    fault = `FAULT_VIRTUAL;
                else if ((user && !en) || !grant_v || bits || (writes && !granted))
                    fault = `FAULT_ILLEGAL;  // ACC-1
            end
            `XTL_CSR_HGENVSI: begin
                if (guest)
                    fault = `FAULT_VIRTUAL;
                else if (user || bits)
                    fault = `FAULT_ILLEGAL;
            end
            `XTL_CSR_HIFMAP, `XTL_CSR_HTLCFG, `XTL_CSR_HNOTIFY, `XTL_CSR_HGRANT, `XTL_CSR_HNQBASE,
            `XTL_CSR_HVTABLEBASE: begin
                if (guest)
                    fault = `FAULT_VIRTUAL;
                else if (user)
                    fault = `FAULT_ILLEGAL;
            end
            default:
                fault = `FAULT_ILLEGAL;
        endcase
        // ACC-2
        if (H == 0 && csr != `XTL_CSR_SGENIPI && csr != `CSR_STIMECMP)
            fault = `FAULT_ILLEGAL;
    end
endmodule
