use super::*;
use proptest::prelude::*;

fn hello() -> Call<'static> {
    Call {
        destination: "a.b",
        path: "/c",
        interface: "d.e",
        member: "F",
        arguments: vec![Value::text("x"), Value::Uint32(5)],
    }
}

/// Encodes a reply of the type `kind` to the call with the serial 3.
fn answer(kind: u8, error: &str, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut message = Writer::default();
    message.bytes.extend([b'l', kind, 0, 1]);
    message.length(body.len());
    message.u32(9);
    message.array(8, |fields| {
        fields.u8(REPLY_SERIAL);
        fields.signature("u");
        fields.u32(3);
        for (code, text) in [(ERROR_NAME, error), (SIGNATURE, signature)] {
            fields.align(8);
            fields.u8(code);
            if code == SIGNATURE {
                fields.signature("g");
                fields.signature(text);
            } else {
                fields.signature("s");
                fields.string(text);
            }
        }
    });
    message.align(8);
    message.bytes.extend_from_slice(body);
    message.bytes
}

#[test]
fn calls_are_encoded_as_specified() {
    #[rustfmt::skip]
    let golden: &[u8] = &[
        b'l', 1, 0, 1, 12, 0, 0, 0, 7, 0, 0, 0, 72, 0, 0, 0,
        1, 1, b'o', 0, 2, 0, 0, 0, b'/', b'c', 0, 0, 0, 0, 0, 0,
        2, 1, b's', 0, 3, 0, 0, 0, b'd', b'.', b'e', 0, 0, 0, 0, 0,
        3, 1, b's', 0, 1, 0, 0, 0, b'F', 0, 0, 0, 0, 0, 0, 0,
        6, 1, b's', 0, 3, 0, 0, 0, b'a', b'.', b'b', 0, 0, 0, 0, 0,
        8, 1, b'g', 0, 2, b's', b'u', 0,
        1, 0, 0, 0, b'x', 0, 0, 0, 5, 0, 0, 0,
    ];
    assert_eq!(hello().encode(7, true), golden);
    let direct = hello().encode(7, false);
    assert!(!direct.windows(3).any(|bytes| bytes == b"a.b"));
}

#[test]
fn answers_are_parsed() {
    let bytes = answer(2, "", "s", &[2, 0, 0, 0, b'o', b'k', 0]);
    let message = Message::parse(&bytes).unwrap();
    assert_eq!((message.kind, message.text()), (Kind::Return(3), Some("ok")));
    let bytes = answer(3, "org.x.Y", "s", &[2, 0, 0, 0, b'n', b'o', 0]);
    let message = Message::parse(&bytes).unwrap();
    assert_eq!((message.kind, &*message.error_name), (Kind::Error(3), "org.x.Y"));
    let bytes = answer(2, "", "v", &[1, b's', 0, 0, 1, 0, 0, 0, b'2', 0]);
    assert_eq!(Message::parse(&bytes).unwrap().variant_text(), Some("2"));
    assert_eq!(Message::parse(&bytes).unwrap().text(), None);
}

#[test]
fn lengths_have_limits() {
    let mut head = hello().encode(1, true);
    assert_eq!(Message::length(&head[..15]), Ok(None));
    assert_eq!(Message::length(&head), Ok(Some(head.len())));
    head[7] = 1;
    assert_eq!(Message::length(&head), Err(Error::Malformed("message too long")));
    assert!(Message::length(b"x234567890123456").is_err());
    assert!(Message::length(b"l\x01\x00\x02567890123456").is_err());
}

#[test]
fn a_header_that_lies_about_itself_is_refused() {
    let good = answer(2, "", "s", &[2, 0, 0, 0, b'o', b'k', 0]);
    for at in 16..good.len() - 7 {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        // The parser may reject or misinterpret the message, but must not panic.
        let _ = Message::parse(&bad);
    }
    for end in 0..good.len() {
        assert!(Message::parse(&good[..end]).is_err());
    }
    // The type of this header field's value is changed to one that the field must not have.
    let mut bad = good.clone();
    bad[18] = b's';
    assert!(Message::parse(&bad).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Message::length(&bytes);
        let _ = Message::parse(&bytes);
        // A plausible start is followed by random bytes, so that the parser reaches the header fields.
        if bytes.len() >= 16 {
            let rest = u32::try_from(bytes.len() - 16).unwrap();
            let fields = rest / 2 / 8 * 8;
            let body = rest - fields;
            bytes[..4].copy_from_slice(&[b'l', 2, 0, 1]);
            bytes[4..8].copy_from_slice(&body.to_le_bytes());
            bytes[12..16].copy_from_slice(&fields.to_le_bytes());
            if let Ok(message) = Message::parse(&bytes) {
                let _ = (message.text(), message.variant_text());
            }
        }
    }

    #[test]
    fn a_changed_answer_never_makes_it_panic(at in 0usize..90, with: u8) {
        let mut bytes = answer(3, "org.x.Y", "s", &[2, 0, 0, 0, b'n', b'o', 0]);
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
        if let Ok(message) = Message::parse(&bytes) {
            let _ = (message.text(), message.variant_text());
        }
    }
}
