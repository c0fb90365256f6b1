//! Timestamps, durations and the empty message of `google.protobuf`.

message! {
    /// `google.protobuf.Timestamp`: a time of CLOCK_REALTIME.
    pub struct Timestamp = "google.protobuf.Timestamp" {
        /// Seconds since 1970, UTC.
        1 => seconds: i64,
        /// Additional nanoseconds, 0 to 999 999 999.
        2 => nanos: i32,
    }

    /// `google.protobuf.Duration`.
    pub struct Duration = "google.protobuf.Duration" {
        /// Seconds.
        1 => seconds: i64,
        /// Nanoseconds, of the same sign.
        2 => nanos: i32,
    }

    /// `google.protobuf.Empty`: the answer without content.
    pub struct Empty = "google.protobuf.Empty" {}
}
