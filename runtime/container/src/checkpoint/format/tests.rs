//! Images with several messages, and damaged ones.

use super::*;

#[test]
fn images_of_messages() {
    let of = |rest: &[u8]| [&COMMON, &USER_NAMESPACE.to_le_bytes(), rest].concat();
    let image = of(b"\x02\0\0\0ab\0\0\0\0");
    let found = messages(&image, USER_NAMESPACE);
    assert_eq!(found, Some([b"ab".as_slice(), b""].into()));
    assert_eq!(messages(&image, CGROUPS), None);
    assert_eq!(messages(&of(b"\x03\0\0\0ab"), USER_NAMESPACE), None);
    assert_eq!(messages(&of(b"\x03\0\0"), USER_NAMESPACE), None);
    assert_eq!(messages(&image[1..], USER_NAMESPACE), None);
}
