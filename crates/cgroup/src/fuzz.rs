//! Ways in for the fuzz targets (`fuzz/`), in builds with the feature `fuzz`.

use alloc::vec::Vec;
use spec::resources::Resources;

use crate::dbus::{self, Message, Value};
use crate::systemd::{self, Property};
use crate::{Error, devices};

/// `resources` as properties of a scope.
///
/// # Errors
/// Values that cannot be.
pub fn properties(
    resources: &Resources,
    unified: bool,
    idles: bool,
) -> Result<Vec<Property>, Error> {
    let rounded = systemd::properties::rounded(resources);
    systemd::properties::of_resources(&rounded, unified, idles)
}

/// Reads a message as it comes from the bus. What is there after a message is the next one's.
pub fn message(bytes: &[u8]) {
    let Ok(Some(length)) = Message::length(bytes) else { return };
    let Some(bytes) = bytes.get(..length) else { return };
    if let Ok(message) = Message::parse(bytes) {
        let _ = (message.text(), message.variant_text());
        let mut body = message.body();
        let _ = (body.u32(), body.string(), body.signature());
    }
}

/// An address of a bus, and the value of an annotation.
pub fn text(text: &str) {
    dbus::check_address(text);
    if let Ok(value) = Value::parse(text) {
        assert!(!value.signature().is_empty(), "{value:?}");
    }
    let _ = systemd::annotated([("org.systemd.property.TimeoutSec", text)].into_iter());
}

/// What the rules are for the files of v1, if those can say it.
pub fn legacy(rules: &[devices::Rule]) -> bool {
    devices::legacy::Policy::new(rules).is_ok()
}
