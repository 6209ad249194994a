// SPDX-License-Identifier: Apache-2.0 OR MIT
// The steps of the engine, and what a job is about while it takes them.

`ifndef XTL_ENGINE_VH
`define XTL_ENGINE_VH

`define FLOW_SOFT           4'd0       // DEL-1
`define FLOW_EVAL           4'd1       // DEL-12
`define FLOW_EDGE           4'd2       // DEL-2
`define FLOW_ASSERT         4'd3
`define FLOW_DEASSERT       4'd4
`define FLOW_COMPLETE       4'd5   // EXT-6 to EXT-9
`define FLOW_CLAIM          4'd6      // EXT-3
`define FLOW_ENABLE         4'd7
`define FLOW_THRESHOLD      4'd8
`define FLOW_SSIP           4'd9       // BIT-4
`define FLOW_PROBE          4'd10     // SLOT-2: is there what is to be attached?
`define FLOW_ATTACH         4'd11    // SLOT-3
`define FLOW_DETACH         4'd12    // SLOT-6
`define FLOW_POKE           4'd13      // DEL-6

`define STEP_IDLE           5'd0
`define STEP_START          5'd1
`define STEP_FIND_DOMAIN    5'd2
`define STEP_FIND_FILE      5'd3
`define STEP_FIND_SOURCE    5'd4
`define STEP_FIND_LINES     5'd5
`define STEP_SET_SOFT       5'd6
`define STEP_SET_PENDING    5'd7   // or clear it
`define STEP_SET_LINE       5'd8      // or clear it
`define STEP_SET_RESAMPLE   5'd9
`define STEP_SET_ENABLE     5'd10
`define STEP_SET_THRESHOLD  5'd11
`define STEP_SET_STATE      5'd12
`define STEP_GET_CTL        5'd13
`define STEP_GET_ENABLE     5'd14
`define STEP_GET_THRESHOLD  5'd15
`define STEP_GET_LINE       5'd16
`define STEP_SEARCH         5'd17
`define STEP_MARK           5'd18
`define STEP_CHOOSE         5'd19
`define STEP_PUSH           5'd20
`define STEP_POP            5'd21
`define STEP_LOOK           5'd22         // at the slot of the hart that is poked
`define STEP_MAP            5'd23          // The attach or detach goes on.
`define STEP_CLAIM_ALSO     5'd24   // The completion is over.
`define STEP_FINISH         5'd25

`endif // XTL_ENGINE_VH
