//! Serialization of the configuration's objects.
//!
//! Engines serialize their configurations from Go structures, so this module follows the rules of Go's encoding: an
//! absent or `null` property has its zero value, unknown properties are ignored (the specification's extensibility
//! rule), and zero values are omitted when writing.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer};

use crate::Str;
use crate::in_root::InRoot;

/// Declares a configuration object. All fields are optional, and named in camelCase in JSON. The lifetime, if any, is
/// `'a`: the lifetime of the input text.
macro_rules! object {
    ($(#[$attribute:meta])* pub struct $name:ident<$life:lifetime> { $($fields:tt)* }) => {
        $crate::object::object! {
            @ $(#[$attribute])*
            #[serde(bound(deserialize = "'de: 'a"))]
            pub struct $name [<$life>] { $($fields)* }
        }
    };
    ($(#[$attribute:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        $crate::object::object! { @ $(#[$attribute])* pub struct $name [] { $($fields)* } }
    };
    (@
        $(#[$attribute:meta])*
        pub struct $name:ident [$($generics:tt)*] {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        $(#[$attribute])*
        pub struct $name $($generics)* {
            $(
                $(#[$field_attribute])*
                #[serde(
                    default,
                    deserialize_with = "crate::object::value_or_null",
                    skip_serializing_if = "crate::object::Absent::is_absent"
                )]
                pub $field: $type,
            )*
        }
    };
}
pub(crate) use object;

/// Deserializes a value; `null` gives the default of the type.
pub(crate) fn value_or_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Decides whether a value is omitted when its object is serialized.
///
/// Numbers are always written: `uid` and `containerID` matter even if they are 0.
pub(crate) trait Absent {
    fn is_absent(&self) -> bool {
        false
    }
}

impl Absent for i32 {}
impl Absent for i64 {}
impl Absent for u16 {}
impl Absent for u32 {}
impl Absent for u64 {}

impl Absent for bool {
    fn is_absent(&self) -> bool {
        !self
    }
}

impl Absent for InRoot<'_> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for Str<'_> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Absent for BTreeMap<K, V> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}
