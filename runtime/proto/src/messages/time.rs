//! Points in time, spans of it, and nothing at all, as `google.protobuf` has them.

message! {
    /// `google.protobuf.Timestamp`: a point in time, as CLOCK_REALTIME has it.
    pub struct Timestamp = "google.protobuf.Timestamp" {
        /// Seconds since 1970, UTC.
        1 => seconds: i64,
        /// Nanoseconds after that, 0 to 999 999 999.
        2 => nanos: i32,
    }

    /// `google.protobuf.Duration`.
    pub struct Duration = "google.protobuf.Duration" {
        /// Seconds.
        1 => seconds: i64,
        /// Nanoseconds, of the same sign.
        2 => nanos: i32,
    }

    /// `google.protobuf.Empty`: what is answered when there is nothing to say.
    pub struct Empty = "google.protobuf.Empty" {}
}
