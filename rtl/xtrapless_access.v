// SPDX-License-Identifier: Apache-2.0 OR MIT
// The access to memory of each step of the engine.

`include "generated/xtrapless.vh"
`include "port.vh"
`include "engine.vh"

module xtrapless_access (
    input  wire [4:0]  state,
    input  wire [3:0]  flow,
    input  wire [2:0]  op,
    input  wire [63:0] operand,
    input  wire [15:0] source,
    input  wire [1:0]  leave,       // STATE that a detach leaves the vhart in
    input  wire        soft,        // SOFT that is written
    input  wire [15:0] hart,
    input  wire [1:0]  kind,        // of the notification
    input  wire [15:0] dom,
    input  wire [15:0] vhart,
    input  wire [60:0] file,
    input  wire [60:0] lines,
    input  wire        walk_req,
    input  wire [60:0] walk_base,
    input  wire [17:0] walk_word,
    input  wire        search_req,
    input  wire [60:0] search_base,
    input  wire [9:0]  search_word,
    input  wire        queue_full,
    input  wire        queue_empty,
    input  wire [52:0] queue_address,
    output reg         mem_req,
    output reg  [1:0]  mem_op,
    output reg  [60:0] mem_base,
    output reg  [17:0] mem_word,
    output reg  [63:0] mem_mask,
    output reg  [63:0] mem_wdata
);
    wire [63:0] bit_of_source = 64'd1 << source[5:0];
    wire [3:0]  word_of_source = source[9:6];

    wire unused = &{1'b0, operand[62:3], 1'b0};

    always @* begin
        mem_req = 1'b0;
        mem_op = `MEM_MERGE;
        mem_base = file;
        mem_word = `XTL_FILE_CTL / 8;
        mem_mask = 64'b0;
        mem_wdata = 64'b0;
        case (state)
            `STEP_FIND_DOMAIN, `STEP_FIND_FILE, `STEP_FIND_SOURCE, `STEP_FIND_LINES: begin
                mem_req = walk_req;
                mem_op = `MEM_LOAD;
                mem_base = walk_base;
                mem_word = walk_word;
            end
            `STEP_SEARCH: begin
                mem_req = search_req;
                mem_op = `MEM_LOAD;
                mem_base = search_base;
                mem_word = {8'b0, search_word};
            end
            `STEP_SET_SOFT: begin
                mem_req = 1'b1;
                mem_mask[`XTL_FILE_CTL_SOFT] = 1'b1;
                mem_wdata[`XTL_FILE_CTL_SOFT] = soft;
            end
            `STEP_SET_STATE: begin
                mem_req = 1'b1;
                mem_mask[`XTL_FILE_CTL_STATE] = 2'b11;
                mem_wdata[`XTL_FILE_CTL_STATE] = flow == `FLOW_ATTACH ? `XTL_STATE_LOADED : leave;
                if (flow == `FLOW_ATTACH) begin
                    mem_mask[`XTL_FILE_CTL_HART] = 16'hffff;
                    mem_wdata[`XTL_FILE_CTL_HART] = hart;
                end
            end
            `STEP_SET_PENDING: begin
                mem_req = 1'b1;
                mem_word = `XTL_FILE_PENDING / 8 + {13'b0, word_of_source, 1'b0};
                mem_mask = bit_of_source;
                mem_wdata = flow == `FLOW_CLAIM || flow == `FLOW_DEASSERT ? 64'b0 : bit_of_source;
            end
            `STEP_SET_ENABLE: begin
                mem_req = 1'b1;
                mem_word = `XTL_FILE_ENABLE / 8 + {13'b0, word_of_source, 1'b0};
                mem_mask = bit_of_source;
                mem_wdata = operand[`XTL_VSENABLE_E] ? bit_of_source : 64'b0;
            end
            `STEP_SET_THRESHOLD: begin
                mem_req = 1'b1;
                mem_word = `XTL_FILE_THRESHOLD / 8;
                mem_mask[`XTL_VSTHRESHOLD_PRIO] = op == `PORT_WRITE || op == `PORT_SWAP ? 3'd7
                    : operand[`XTL_VSTHRESHOLD_PRIO];
                mem_wdata[`XTL_VSTHRESHOLD_PRIO] = op == `PORT_CLEAR ? 3'd0
                    : operand[`XTL_VSTHRESHOLD_PRIO];
            end
            `STEP_SET_LINE, `STEP_SET_RESAMPLE: begin
                mem_req = 1'b1;
                mem_base = lines;
                mem_word = {14'b0, word_of_source};
                if (state == `STEP_SET_RESAMPLE)
                    mem_word = {14'b0, word_of_source} + (`XTL_MAX_SOURCES + 1) / 64;
                mem_mask = bit_of_source;
                mem_wdata = flow == `FLOW_ASSERT || state == `STEP_SET_RESAMPLE ? bit_of_source
                    : 64'b0;
            end
            `STEP_GET_LINE: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
                mem_base = lines;
                mem_word = {14'b0, word_of_source};
            end
            `STEP_GET_CTL: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
            end
            `STEP_GET_ENABLE: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
                mem_word = `XTL_FILE_ENABLE / 8 + {13'b0, word_of_source, 1'b0};
            end
            `STEP_GET_THRESHOLD: begin
                mem_req = 1'b1;
                mem_op = `MEM_LOAD;
                mem_word = `XTL_FILE_THRESHOLD / 8;
            end
            `STEP_MARK: begin  // N1
                mem_req = 1'b1;
                mem_op = `MEM_MARK;
                mem_mask[`XTL_FILE_CTL_ON] = 1'b1;
                mem_wdata[`XTL_FILE_CTL_ON] = 1'b1;
            end
            `STEP_PUSH, `STEP_POP: begin
                mem_req = state == `STEP_PUSH ? !queue_full : !queue_empty;
                mem_op = state == `STEP_PUSH ? `MEM_STORE : `MEM_LOAD;
                mem_base = {8'b0, queue_address};
                mem_word = 18'd0;
                mem_wdata[`XTL_HNOTIFY_V] = 1'b1;
                mem_wdata[`XTL_HNOTIFY_KIND] = kind;
                mem_wdata[`XTL_HNOTIFY_DOM] = dom;
                mem_wdata[`XTL_HNOTIFY_ID] = kind == `XTL_KIND_RESAMPLE ? source : vhart;
            end
            default: ;
        endcase
    end
endmodule
