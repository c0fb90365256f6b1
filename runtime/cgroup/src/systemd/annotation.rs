//! Annotations `org.systemd.property.NAME` of the configuration, which set properties of the unit.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::systemd::{Error, Property, Value};

const PREFIX: &str = "org.systemd.property.";
const MICROSECONDS: u64 = 1_000_000;

/// Returns the properties that `annotations` set. The value of such an annotation is in GVariant's text format. If the
/// name ends in `Sec`, as in unit files, the D-Bus name ends in `USec`.
///
/// # Errors
/// [`Error::Annotation`] for invalid names and values.
pub fn annotated<'a>(
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<Property>, Error> {
    let ours = annotations.filter_map(|(key, text)| Some((key.strip_prefix(PREFIX)?, text)));
    ours.map(|(name, text)| {
        property(name, text).map_err(|reason| Error::Annotation {
            annotation: format!("{PREFIX}{name}={text}"),
            reason,
        })
    })
    .collect()
}

fn property(name: &str, text: &str) -> Result<Property, String> {
    if name.len() < 3 {
        return Err("name incorrect: too short".to_string());
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Err("name incorrect: contains non-alphabetic character".to_string());
    }
    let value = Value::parse(text).map_err(|reason| format!("value parse error: {reason}"))?;
    // `Sec` is a unit of time only if it is the last word of a camel-case name.
    match name.strip_suffix("Sec").filter(|stem| stem.ends_with(|c: char| c.is_ascii_lowercase())) {
        None => Ok(Property { name: name.to_string(), value }),
        Some(stem) => {
            let time = microseconds(&value)
                .ok_or("value parse error: not a number of seconds".to_string())?;
            Ok(Property { name: format!("{stem}USec"), value: Value::Uint64(time) })
        }
    }
}

fn microseconds(seconds: &Value) -> Option<u64> {
    let whole: u64 = match *seconds {
        Value::Byte(value) => value.into(),
        Value::Uint16(value) => value.into(),
        Value::Uint32(value) => value.into(),
        Value::Uint64(value) => value,
        Value::Int16(value) => value.try_into().ok()?,
        Value::Int32(value) => value.try_into().ok()?,
        Value::Int64(value) => value.try_into().ok()?,
        Value::Double(value) => {
            let time = value * MICROSECONDS as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in range"
            )]
            return (0.0..9e18).contains(&time).then_some(time as u64);
        }
        _ => return None,
    };
    whole.checked_mul(MICROSECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, text: &str) -> Result<Vec<(String, Value)>, Error> {
        let key = format!("{PREFIX}{name}");
        let other = ("org.example.x", "not a value");
        let list = annotated([other, (&*key, text)].into_iter())?;
        Ok(list.into_iter().map(|property| (property.name, property.value)).collect())
    }

    #[test]
    fn properties_are_read() {
        let is = |name: &str, value| Ok(vec![(name.to_string(), value)]);
        assert_eq!(
            one("CollectMode", "'inactive-or-failed'"),
            is("CollectMode", Value::text("inactive-or-failed"))
        );
        assert_eq!(
            one("TimeoutStopSec", "uint64 5"),
            is("TimeoutStopUSec", Value::Uint64(5_000_000))
        );
        assert_eq!(one("TimeoutStopSec", "1.5"), is("TimeoutStopUSec", Value::Uint64(1_500_000)));
        assert_eq!(one("TimeoutStopUSec", "uint64 5"), is("TimeoutStopUSec", Value::Uint64(5)));
        assert_eq!(one("Sec", "1"), is("Sec", Value::Int32(1)));
    }

    #[test]
    fn malformed_properties_are_refused() {
        for (name, text) in [
            ("Ab", "1"),
            ("A-b", "1"),
            ("Abc", "x"),
            ("Abc", ""),
            ("AbcSec", "'5'"),
            ("AbcSec", "-5"),
            ("AbcSec", "uint64 99999999999999999"),
            ("AbcSec", "1e300"),
        ] {
            let error = one(name, text).unwrap_err().to_string();
            assert!(error.contains(&format!("{PREFIX}{name}={text}")), "{error}");
        }
    }
}
