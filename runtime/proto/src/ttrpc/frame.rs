//! Frames: ten bytes of header, and as many of content as it says.

/// Bytes of a header.
pub const HEADER: usize = 10;
/// Bytes of content that a frame may have, at most.
pub const LONGEST: usize = 4 << 20;

/// The kinds of frames. Others may come to be: they are to be ignored.
pub mod kind {
    /// Opens a stream: from the client, with a [`Request`](crate::ttrpc::request::Request).
    pub const REQUEST: u8 = 1;
    /// Ends it: from the server, with a [`Response`](crate::ttrpc::request::Response).
    pub const RESPONSE: u8 = 2;
    /// Something in between, from either side, on streams that are open for it.
    pub const DATA: u8 = 3;
}

/// Flags of frames.
pub mod flag {
    /// Of a request and of data: no data will follow.
    pub const REMOTE_CLOSED: u8 = 1;
    /// Of a request: data will follow.
    pub const REMOTE_OPEN: u8 = 2;
    /// Of data: there is none.
    pub const NO_DATA: u8 = 4;
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of content.
    pub length: u32,
    /// The stream: odd, as it is opened by the client.
    pub stream: u32,
    /// One of [`kind`].
    pub kind: u8,
    /// Some of [`flag`].
    pub flags: u8,
}

impl Header {
    /// The header that ten bytes are: numbers are big-endian.
    pub fn decode(bytes: [u8; HEADER]) -> Self {
        let [l0, l1, l2, l3, s0, s1, s2, s3, kind, flags] = bytes;
        Self {
            length: u32::from_be_bytes([l0, l1, l2, l3]),
            stream: u32::from_be_bytes([s0, s1, s2, s3]),
            kind,
            flags,
        }
    }

    /// As ten bytes.
    pub fn encode(self) -> [u8; HEADER] {
        let [l0, l1, l2, l3] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, l3, s0, s1, s2, s3, self.kind, self.flags]
    }

    /// Whether its content is longer than [`LONGEST`].
    pub fn is_too_long(self) -> bool {
        self.length as usize > LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header =
            Header { length: 0x0102, stream: 0x0304_0506, kind: kind::DATA, flags: flag::NO_DATA };
        assert_eq!(header.encode(), [0, 0, 1, 2, 3, 4, 5, 6, 3, 4]);
        assert_eq!(Header::decode(header.encode()), header);
        assert!(!Header { length: 4 << 20, ..header }.is_too_long());
        assert!(Header { length: (4 << 20) + 1, ..header }.is_too_long());
    }
}
