//! The messages of `google.protobuf` for points in time, durations, and no content.

message! {
    /// `google.protobuf.Timestamp`: a time of CLOCK_REALTIME.
    pub struct Timestamp = "google.protobuf.Timestamp" {
        /// Seconds since 1970, UTC.
        1 => seconds: i64,
        /// The nanoseconds within the second, 0 to 999 999 999.
        2 => nanos: i32,
    }

    /// `google.protobuf.Empty`: the answer to calls that have no result.
    pub struct Empty = "google.protobuf.Empty" {}
}
