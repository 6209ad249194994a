// SPDX-License-Identifier: Apache-2.0 OR MIT
// Who may access which CSR of Xvei (VEI-2). What Smstateen forbids, the core has checked before.

`include "generated/haiov.vh"
`include "port.vh"

module xvei_rights (
    input  wire [11:0] csr,
    input  wire [2:0]  op,
    input  wire [2:0]  mode,
    input  wire        table_v,  // hveitab.V
    output reg  [1:0]  fault
);
    wire guest = mode[2];
    wire bits = op == `PORT_SET || op == `PORT_CLEAR;

    always @* begin
        fault = `FAULT_NONE;
        if (csr == `HAIOV_CSR_SGENVEI) begin
            if (!guest)
                fault = `FAULT_ILLEGAL;
            else if (mode == `MODE_VU || !table_v || bits)
                fault = `FAULT_VIRTUAL;
        end else if (guest)
            fault = `FAULT_VIRTUAL;
        else if (mode == `MODE_U || (csr == `HAIOV_CSR_HGENVEI && bits))
            fault = `FAULT_ILLEGAL;
    end
endmodule
