//! Field numbers and values of Perfetto's `trace_packet.proto`, `track_event.proto`,
//! `track_descriptor.proto`, `counter_descriptor.proto` and `debug_annotation.proto`.

/// `Trace.packet`.
pub const PACKET: u32 = 1;
/// `TracePacket.timestamp`, nanoseconds.
pub const TIMESTAMP: u32 = 8;
/// `TracePacket.trusted_packet_sequence_id`.
pub const SEQUENCE: u32 = 10;
/// `TracePacket.track_event`.
pub const TRACK_EVENT: u32 = 11;
/// `TracePacket.track_descriptor`.
pub const TRACK_DESCRIPTOR: u32 = 60;

/// `TrackDescriptor.uuid`.
pub const UUID: u32 = 1;
/// `TrackDescriptor.name`.
pub const TRACK_NAME: u32 = 2;
/// `TrackDescriptor.parent_uuid`.
pub const PARENT: u32 = 5;
/// `TrackDescriptor.counter`.
pub const COUNTER_DESCRIPTOR: u32 = 8;
/// `TrackDescriptor.child_ordering`.
pub const CHILD_ORDERING: u32 = 11;
/// `TrackDescriptor.sibling_order_rank`.
pub const RANK: u32 = 12;
/// `TrackDescriptor.sibling_merge_behavior`.
pub const MERGE_BEHAVIOR: u32 = 15;
/// `CounterDescriptor.unit`.
pub const UNIT: u32 = 3;

/// `TrackEvent.debug_annotations`.
pub const ANNOTATION: u32 = 4;
/// `TrackEvent.type`.
pub const TYPE: u32 = 9;
/// `TrackEvent.track_uuid`.
pub const TRACK: u32 = 11;
/// `TrackEvent.categories`.
pub const CATEGORY: u32 = 22;
/// `TrackEvent.name`.
pub const NAME: u32 = 23;
/// `TrackEvent.counter_value`.
pub const COUNTER_VALUE: u32 = 30;
/// `TrackEvent.flow_ids`.
pub const FLOW: u32 = 47;
/// `TrackEvent.terminating_flow_ids`.
pub const FLOW_END: u32 = 48;
/// `DebugAnnotation.string_value`.
pub const ANNOTATION_TEXT: u32 = 6;
/// `DebugAnnotation.name`.
pub const ANNOTATION_NAME: u32 = 10;

/// Values of `TrackEvent.Type`.
pub mod event_type {
    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

/// `ChildTracksOrdering.LEXICOGRAPHIC`.
pub const ORDERED_BY_NAME: u64 = 1;
/// `ChildTracksOrdering.EXPLICIT`: by [`RANK`].
pub const ORDERED_BY_RANK: u64 = 3;
/// `SIBLING_MERGE_BEHAVIOR_NONE`: tracks with the same name stay apart.
pub const NEVER_MERGED: u64 = 2;
/// `CounterDescriptor.Unit.UNIT_COUNT`.
pub const UNIT_COUNT: u64 = 2;
