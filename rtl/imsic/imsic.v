// SPDX-License-Identifier: Apache-2.0 OR MIT
// An IMSIC as chapter 3 of the RISC-V Advanced Interrupt Architecture describes it, for RV64: the
// supervisor-level interrupt file of a hart and its guest interrupt files. What the controller of
// Xtrapless is measured against; it is written in the same way and has as few gates as its author
// could do with.
//
//   msg_*  A store to the page of a file: seteipnum_le, or seteipnum_be with `msg_be`. File 0 is
//          that of the supervisor level, others guest files. Always taken, one in each cycle.
//   req_*  siselect/sireg or stopei of file 0, vsiselect/vsireg or vstopei of file `hstatus.VGEIN`;
//          rights are the core's. Answered in the next cycle. `req_op`: port.vh.
//   rsp_fault  There is no such register, or no such file.
//   seip, hgeip  Levels, one cycle after what changes them.
//
// A message that arrives with an access takes effect after it.

`include "port.vh"

module imsic #(
    parameter GUESTS = 1,        // 0 to 63
    parameter IDENTITIES = 255   // 63, 127, ... 2047, of each file
) (
    input  wire              clk,
    input  wire              reset,

    input  wire              msg_valid,
    input  wire [5:0]        msg_file,
    input  wire              msg_be,
    input  wire [31:0]       msg_data,

    input  wire              req_valid,
    input  wire [5:0]        req_file,
    input  wire              req_topei,   // else the register that req_select names
    input  wire [7:0]        req_select,  // iselect, 0x70 to 0xff
    input  wire [2:0]        req_op,
    input  wire [63:0]       req_operand,
    output reg               rsp_valid,
    output reg  [63:0]       rsp_data,
    output reg               rsp_fault,

    output wire              seip,
    output wire [63:0]       hgeip
);
    localparam FILES = GUESTS + 1;
    localparam BITS = IDENTITIES > 1023 ? 11 : IDENTITIES > 511 ? 10 : IDENTITIES > 255 ? 9
                    : IDENTITIES > 127 ? 8 : IDENTITIES > 63 ? 7 : 6;

    wire [31:0] swapped = {msg_data[7:0], msg_data[15:8], msg_data[23:16], msg_data[31:24]};
    wire [31:0] identity = msg_be ? swapped : msg_data;
    wire        arrives = msg_valid && identity <= IDENTITIES;

    wire is_array = req_select[7];  // eip0 to eip63, eie0 to eie63
    wire is_delivery = req_select == 8'h70;
    wire is_threshold = req_select == 8'h72;
    wire fault = {26'b0, req_file} >= FILES || (!req_topei && is_array && req_select[0]);
    wire [5:0] word = {1'b0, req_select[5:1]};

    wire [64*FILES-1:0] arrays;
    wire [BITS*FILES-1:0] tops;
    wire [BITS*FILES-1:0] thresholds;
    wire [FILES-1:0] deliveries;
    wire [FILES-1:0] levels;

    // What the access reads, and what it writes.
    wire [FILES-1:0] selected;
    wire [BITS-1:0] top = tops[BITS*req_file+:BITS];
    reg [63:0] old;
    always @* begin
        old = 64'b0;
        if (req_topei) begin
            old[BITS-1:0] = top;
            old[16+:BITS] = top;
        end else if (is_array)
            old = arrays[64*req_file+:64];
        else if (is_delivery)
            old[0] = |(deliveries & selected);
        else if (is_threshold)
            old[BITS-1:0] = thresholds[BITS*req_file+:BITS];
    end
    wire [63:0] value = req_op == `PORT_SET ? old | req_operand
                      : req_op == `PORT_CLEAR ? old & ~req_operand : req_operand;
    wire write = req_valid && !fault && req_op != `PORT_READ;

    genvar f;
    generate
        for (f = 0; f < FILES; f = f + 1) begin : files
            assign selected[f] = req_file == f;
            wire here = write && selected[f];
            imsic_file #(.IDENTITIES(IDENTITIES), .BITS(BITS)) file (
                .clk(clk), .reset(reset),
                .arrives(arrives && msg_file == f), .identity(identity[BITS-1:0]),
                .enables(req_select[6]), .word(word), .claim(here && req_topei),
                .write_array(here && !req_topei && is_array),
                .write_delivery(here && !req_topei && is_delivery),
                .write_threshold(here && !req_topei && is_threshold), .value(value),
                .array(arrays[64*f+:64]), .top(tops[BITS*f+:BITS]),
                .threshold(thresholds[BITS*f+:BITS]), .delivery(deliveries[f]),
                .level(levels[f]));
        end
    endgenerate

    assign seip = levels[0];
    assign hgeip = {{(64 - FILES){1'b0}}, levels} & ~64'd1;

    always @(posedge clk) begin
        rsp_valid <= !reset && req_valid;
        rsp_fault <= fault;
        rsp_data <= fault ? 64'b0 : old;
    end
endmodule
