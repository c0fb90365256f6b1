//! Keys that differ from known ones only in case.
//!
//! Go's parser, and so runc, accepts `Memory` for `memory`. dayfly does not, since JSON keys are case-sensitive. But a
//! silently ignored limit is dangerous, so such keys are reported. To skip the value of an unknown key, serde calls
//! `deserialize_ignored_any`. The wrapper in this module intercepts this call, and compares the unknown key with the
//! known keys of the object.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use serde::Deserialize;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};

/// A key that differs from a known one only in case. Its value is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misspelt {
    /// The key with its enclosing objects: `linux.resources.Memory`.
    pub property: String,
    /// The known key.
    pub known: &'static str,
}

impl fmt::Display for Misspelt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, known } = self;
        write!(f, "{property} is ignored: the key is {known:?}; keys are case-sensitive")
    }
}

/// Pairs of a misspelt key and the correct key. A misspelt key is a slice of the text, which gives its position.
pub(crate) type Found<'de> = RefCell<Vec<(&'de str, &'static str)>>;

/// A deserializer that records misspelt keys in `found`.
pub(crate) struct Watched<'w, 'de, D> {
    pub inner: D,
    pub found: &'w Found<'de>,
    /// The current key, and the known keys of its object.
    pub key: Option<&'de str>,
    pub fields: &'static [&'static str],
}

/// Forwards calls to the inner deserializer.
macro_rules! forward {
    ($($method:ident)*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            self.inner.$method(visitor)
        }
    )* };
    (named $($method:ident($($name:ident: $type:ty),*))*) => { $(
        #[inline]
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, Self::Error> {
            self.inner.$method($($name,)* visitor)
        }
    )* };
}

impl<'w, 'de, D: Deserializer<'de>> Watched<'w, 'de, D> {
    #[inline]
    fn visitor<V>(
        found: &'w Found<'de>,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Inside<'w, 'de, V> {
        Inside { visitor, found, fields }
    }

    /// Records the current key, which is unknown, if it differs from a known key only in case.
    #[cold]
    fn note(&self) {
        let Some(key) = self.key else { return };
        let known = self.fields.iter().find(|known| known.eq_ignore_ascii_case(key));
        if let Some(known) = known {
            self.found.borrow_mut().push((key, known));
        }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Watched<'_, 'de, D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_unit deserialize_identifier
    }
    forward! { named
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(Self::visitor(self.found, &[], visitor))
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_seq(Self::visitor(self.found, &[], visitor))
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Self::visitor(self.found, &[], visitor))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Self::visitor(self.found, fields, visitor))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.note();
        self.inner.deserialize_ignored_any(visitor)
    }
}

/// Wraps the visitor of an object, list or option, so that nested values are checked, too.
struct Inside<'w, 'de, T> {
    visitor: T,
    found: &'w Found<'de>,
    fields: &'static [&'static str],
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<'_, 'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    #[inline]
    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    #[inline]
    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let Self { visitor, found, .. } = self;
        visitor.visit_some(Watched { inner, found, key: None, fields: &[] })
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, found, fields } = self;
        // A type with fields is an object in JSON; serde would also accept a list of the field values.
        if !fields.is_empty() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &"an object"));
        }
        visitor.visit_seq(List { inner, found })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, found, fields } = self;
        visitor.visit_map(Object { inner, found, fields, key: None })
    }
}

struct List<'w, 'de, A> {
    inner: A,
    found: &'w Found<'de>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for List<'_, 'de, A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        self.inner.next_element_seed(Value { seed, found: self.found, key: None, fields: &[] })
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Object<'w, 'de, A> {
    inner: A,
    found: &'w Found<'de>,
    fields: &'static [&'static str],
    key: Option<&'de str>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Object<'_, 'de, A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(Key(key)) = self.inner.next_key()? else { return Ok(None) };
        let key = match key {
            Cow::Borrowed(key) => {
                self.key = Some(key);
                seed.deserialize(BorrowedStrDeserializer::new(key))
            }
            Cow::Owned(key) => {
                self.key = None;
                seed.deserialize(key.into_deserializer())
            }
        };
        key.map(Some)
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let Self { found, fields, key, .. } = *self;
        self.inner.next_value_seed(Value { seed, found, key, fields })
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Value<'w, 'de, T> {
    seed: T,
    found: &'w Found<'de>,
    key: Option<&'de str>,
    fields: &'static [&'static str],
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Value<'_, 'de, T> {
    type Value = T::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<T::Value, D::Error> {
        let Self { seed, found, key, fields } = self;
        seed.deserialize(Watched { inner, found, key, fields })
    }
}

/// A key, as a slice of the text unless it contains escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Parses a whole text, and returns the value together with the misspelt keys.
///
/// # Errors
/// The errors of the deserializer.
pub(crate) fn read<'de, T: Deserialize<'de>>(
    text: &'de str,
) -> serde_json::Result<(T, Vec<Misspelt>)> {
    let found = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_str(text);
    let watched = Watched { inner: &mut reader, found: &found, key: None, fields: &[] };
    let value = T::deserialize(watched)?;
    reader.end()?;
    let found = found.into_inner();
    Ok((value, if found.is_empty() { Vec::new() } else { told(text, &found) }))
}

/// Returns the misspelt keys in `found` together with their enclosing properties.
#[cold]
fn told(text: &str, found: &[(&str, &'static str)]) -> Vec<Misspelt> {
    let all = found.iter().map(|&(key, known)| {
        // The key is a slice of the text. `property_at` needs the text up to the colon after the key.
        let end = (key.as_ptr() as usize).saturating_sub(text.as_ptr() as usize) + key.len();
        let colon = text.get(end..).and_then(|rest| rest.find(':')).map_or(end, |at| end + at + 1);
        let property = crate::locate::property_at(text.get(..colon).unwrap_or(text).as_bytes());
        Misspelt { property, known }
    });
    all.collect()
}
