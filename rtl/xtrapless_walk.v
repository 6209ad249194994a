// SPDX-License-Identifier: Apache-2.0 OR MIT
// From numbers to addresses: entries of the domain table, of vhart tables and source tables
// (chapter "Structures in memory"). Nothing is kept from one job to the next, so that no operation
// uses contents older than its beginning (ORD-11).
//
// The engine holds `command` until `done`; `ok` says whether what it names exists. Addresses are
// those of words: bits 63:3.

`include "generated/xtrapless.vh"
`include "port.vh"

module xtrapless_walk (
    input  wire        clk,
    input  wire        reset,
    input  wire [2:0]  command,
    input  wire        tables_v,
    input  wire [43:0] tables_ppn,
    input  wire [4:0]  tables_size,
    input  wire [15:0] dom,
    input  wire [15:0] vhart,
    input  wire [15:0] source,
    output wire        done,
    output wire        ok,

    output reg  [60:0] entry,     // of the domain
    output reg  [9:0]  sources,   // highest source
    output reg  [60:0] file,
    output reg  [60:0] lines,
    output reg         resample,  // of the source's entry
    output reg         level,
    output reg  [2:0]  prio,
    output reg  [15:0] affinity,  // its vhart

    output reg         mem_req,
    output reg  [60:0] mem_base,
    output reg  [17:0] mem_word,
    input  wire [60:0] mem_address,
    input  wire        mem_ack,
    input  wire        mem_err,
    input  wire [63:0] mem_rdata
);
    localparam [2:0] NOTHING = 3'd0;
    localparam [2:0] DOMAIN = 3'd1;
    localparam [2:0] FILE = 3'd2;
    localparam [2:0] SOURCE = 3'd3;
    localparam [2:0] LINES = 3'd4;

    reg        second;  // The table is known, its entry is not.
    reg [60:0] table_at;
    reg [10:0] vharts;

    wire [16:0] beyond = {1'b0, dom} >> tables_size;
    wire        exists = !mem_err && mem_rdata[63];

    // Requests do not depend on answers, so these are two blocks.
    always @* begin
        mem_req = 1'b0;
        mem_base = entry;
        mem_word = 18'd0;
        case (command)
            DOMAIN: begin
                mem_req = tables_v && beyond == 17'b0;
                mem_base = {8'b0, tables_ppn, 9'b0};
                mem_word = {dom, 2'b0} + `XTL_DOMAIN_CONFIG / 8;
            end
            FILE: begin
                mem_req = vhart < {5'b0, vharts};
                mem_word = `XTL_DOMAIN_VHART_TABLE / 8;
                if (second) begin
                    mem_base = table_at;
                    mem_word = {2'b0, vhart};
                end
            end
            SOURCE: begin
                mem_req = source != 16'd0 && source <= {6'b0, sources};
                mem_word = `XTL_DOMAIN_SOURCE_TABLE / 8;
                if (second) begin
                    mem_base = table_at;
                    mem_word = {2'b0, source};
                end
            end
            LINES: begin
                mem_req = 1'b1;
                mem_word = `XTL_DOMAIN_LINES / 8;
            end
            default: ;
        endcase
    end

    wire two = command == FILE || command == SOURCE;
    assign done = command != NOTHING
        && (!mem_req || (mem_ack && (!two || second || mem_err)));
    assign ok = mem_req && (command == LINES ? !mem_err : exists && (!two || second));

    always @(posedge clk) begin
        if (reset)
            second <= 1'b0;
        else if (mem_ack) begin
            second <= !done && command != NOTHING;
            case (command)
                DOMAIN: begin
                    entry <= mem_address;
                    sources <= mem_rdata[`XTL_DOMAIN_CONFIG_SOURCES] > `XTL_MAX_SOURCES
                        ? 10'd`XTL_MAX_SOURCES : mem_rdata[25:16];
                    vharts <= mem_rdata[`XTL_DOMAIN_CONFIG_VHARTS] > `XTL_MAX_VHARTS
                        ? 11'd`XTL_MAX_VHARTS : mem_rdata[10:0];
                end
                FILE:
                    if (second)
                        file <= {8'b0, mem_rdata[`XTL_VHART_ENTRY_FILE], 7'b0};
                    else
                        table_at <= mem_rdata[63:3];
                SOURCE:
                    if (second) begin
                        resample <= mem_rdata[`XTL_SOURCE_ENTRY_RESAMPLE];
                        level <= mem_rdata[`XTL_SOURCE_ENTRY_LEVEL];
                        prio <= mem_rdata[`XTL_SOURCE_ENTRY_PRIO];
                        affinity <= mem_rdata[`XTL_SOURCE_ENTRY_VHART];
                    end else
                        table_at <= mem_rdata[63:3];
                LINES:
                    lines <= mem_rdata[63:3];
                default: ;
            endcase
        end
    end
endmodule
