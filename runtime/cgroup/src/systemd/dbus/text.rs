//! Parsing of values in GLib's GVariant text format, which gdbus(1) and runc's annotations use: `uint64 5`, `'text'`,
//! `true`, `['a', 'b']`, `@as []`, `{'key': <1>}`, `b'bytes'`.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::systemd::dbus::Value;

/// Maximum nesting depth of arrays, structs, dictionaries and variants.
const MAX_DEPTH: u32 = 16;

impl Value {
    /// Parses a value. A type prefix is a type name such as `uint64`, or `@` and a signature. A number without a type
    /// prefix is an `i`; with a decimal point or an exponent, it is a `d`.
    ///
    /// # Errors
    /// A description of the syntax error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text };
        let node = parser.node(MAX_DEPTH)?;
        match parser.skip_space() {
            "" => node.typed(None),
            rest => Err(format!("unexpected {rest:?}")),
        }
    }
}

/// A parsed value whose type is not yet known.
enum Node<'a> {
    Bool(bool),
    Number(&'a str),
    Text(String),
    Bytes(Vec<u8>),
    Array(Vec<Self>),
    Dictionary(Vec<(Self, Self)>),
    Variant(Box<Self>),
    Typed(String, Box<Self>),
}

struct Parser<'a> {
    rest: &'a str,
}

/// Type keywords and their signatures.
const NAMES: [(&str, &str); 12] = [
    ("boolean", "b"),
    ("byte", "y"),
    ("int16", "n"),
    ("uint16", "q"),
    ("int32", "i"),
    ("uint32", "u"),
    ("int64", "x"),
    ("uint64", "t"),
    ("double", "d"),
    ("string", "s"),
    ("objectpath", "o"),
    ("signature", "g"),
];

impl<'a> Parser<'a> {
    fn skip_space(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    /// Returns whether `token` comes next; if so, consumes it.
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.skip_space().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn needs(&mut self, token: &str) -> Result<(), String> {
        match self.takes(token) {
            true => Ok(()),
            false => Err(format!("expected {token:?} before {:?}", self.rest)),
        }
    }

    /// Consumes characters as long as `wanted` returns true, and returns them.
    fn while_it(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn node(&mut self, depth: u32) -> Result<Node<'a>, String> {
        let deeper = depth.checked_sub(1).ok_or("nested too deep")?;
        if self.takes("[") {
            return Ok(Node::Array(self.list("]", |parser| parser.node(deeper))?));
        }
        if self.takes("{") {
            return Ok(Node::Dictionary(self.list("}", |parser| {
                let key = parser.node(deeper)?;
                parser.needs(":")?;
                Ok((key, parser.node(deeper)?))
            })?));
        }
        if self.takes("<") {
            let inner = self.node(deeper)?;
            self.needs(">")?;
            return Ok(Node::Variant(Box::new(inner)));
        }
        for quote in ['\'', '"'] {
            let mut buffer = [0; 4];
            let quote: &str = quote.encode_utf8(&mut buffer);
            if self.takes(quote) {
                return Ok(Node::Text(self.string(quote)?));
            }
            if self.takes(&format!("b{quote}")) {
                return Ok(Node::Bytes(self.byte_string(quote)?));
            }
        }
        if self.takes("@") {
            let signature = self.while_it(|c| "ybnqiuxtdsogav(){}".contains(c)).to_string();
            return Ok(Node::Typed(signature, Box::new(self.node(deeper)?)));
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
            return Ok(Node::Number(
                self.while_it(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)),
            ));
        }
        match self.while_it(|c| c.is_ascii_alphanumeric()) {
            "" if self.rest.is_empty() => Err("unexpected end".to_string()),
            "" => Err(format!("unexpected {:?}", self.rest)),
            "true" => Ok(Node::Bool(true)),
            "false" => Ok(Node::Bool(false)),
            word => match NAMES.iter().find(|(name, _)| *name == word) {
                Some((_, kind)) => Ok(Node::Typed(kind.to_string(), Box::new(self.node(deeper)?))),
                None => Err(format!("unrecognized type {word:?}")),
            },
        }
    }

    /// Parses comma-separated elements, up to `end`.
    fn list<T>(
        &mut self,
        end: &str,
        mut element: impl FnMut(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut elements = Vec::new();
        if self.takes(end) {
            return Ok(elements);
        }
        loop {
            elements.push(element(self)?);
            if self.takes(end) {
                return Ok(elements);
            }
            self.needs(",")?;
        }
    }

    /// Consumes characters up to and including the closing quote. Calls `each` for each character, with true if a
    /// backslash precedes it; the backslash itself is skipped.
    fn characters(
        &mut self,
        quote: &str,
        mut each: impl FnMut(&mut Self, char, bool) -> Result<(), String>,
    ) -> Result<(), String> {
        loop {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                self.rest = rest;
                return Ok(());
            }
            let escaped = self.rest.starts_with('\\');
            let mut rest = self.rest.chars();
            let next = if escaped { rest.nth(1) } else { rest.next() };
            self.rest = rest.as_str();
            each(self, next.ok_or("unterminated string")?, escaped)?;
        }
    }

    fn string(&mut self, quote: &str) -> Result<String, String> {
        let mut text = String::new();
        self.characters(quote, |parser, c, escaped| {
            text.push(match (escaped, c) {
                (true, '\n') => return Ok(()),
                (true, 'u') => parser.code(4)?,
                (true, 'U') => parser.code(8)?,
                (true, c) => control(c),
                (false, c) => c,
            });
            Ok(())
        })?;
        match text.contains('\0') {
            true => Err("a string cannot hold a zero byte".to_string()),
            false => Ok(text),
        }
    }

    fn byte_string(&mut self, quote: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        self.characters(quote, |parser, c, escaped| {
            match (escaped, c) {
                (true, 'x') => bytes.push(parser.digits(2, 16)?),
                (true, '0') => bytes.push(parser.digits(3, 8)?),
                (true, c) => bytes.extend(control(c).encode_utf8(&mut [0; 4]).bytes()),
                (false, c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
            Ok(())
        })?;
        bytes.push(0);
        Ok(bytes)
    }

    fn digits<T: TryFrom<u32>>(&mut self, count: usize, radix: u32) -> Result<T, String> {
        let digits = self.rest.get(..count).ok_or("short escape")?;
        self.rest = self.rest.get(count..).unwrap_or_default();
        let number = u32::from_str_radix(digits, radix).ok().and_then(|code| code.try_into().ok());
        number.ok_or_else(|| format!("bad escape {digits:?}"))
    }

    fn code(&mut self, count: usize) -> Result<char, String> {
        let code: u32 = self.digits(count, 16)?;
        char::from_u32(code).ok_or_else(|| format!("no character U+{code:04X}"))
    }
}

/// Returns the character that is written as a backslash followed by `c`.
fn control(c: char) -> char {
    match c {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        c => c,
    }
}

impl Node<'_> {
    /// Infers the type from the value alone. In an array, a type annotation of one element applies to all elements.
    fn infer(&self) -> Option<String> {
        let of_all = |nodes: &mut dyn Iterator<Item = &Self>| {
            let mut first = None;
            for node in nodes {
                if node.is_typed() {
                    return node.infer();
                }
                first = first.or_else(|| node.infer());
            }
            first
        };
        Some(match self {
            Self::Bool(_) => "b".to_string(),
            Self::Number(text) if !text.starts_with("0x") && text.contains(['.', 'e', 'E']) => {
                "d".to_string()
            }
            Self::Number(_) => "i".to_string(),
            Self::Text(_) => "s".to_string(),
            Self::Bytes(_) => "ay".to_string(),
            Self::Variant(_) => "v".to_string(),
            Self::Array(nodes) => format!("a{}", of_all(&mut nodes.iter())?),
            Self::Dictionary(entries) => {
                let key = of_all(&mut entries.iter().map(|entry| &entry.0))?;
                format!("a{{{key}{}}}", of_all(&mut entries.iter().map(|entry| &entry.1))?)
            }
            Self::Typed(signature, _) => signature.clone(),
        })
    }

    /// Returns whether the value has a type annotation.
    fn is_typed(&self) -> bool {
        match self {
            Self::Typed(..) => true,
            Self::Array(nodes) => nodes.iter().any(Self::is_typed),
            _ => false,
        }
    }

    /// Converts the node to a value of the given type, or of the inferred type if none is given.
    fn typed(&self, wanted: Option<&str>) -> Result<Value, String> {
        let inferred;
        let kind = match wanted {
            Some(kind) => kind,
            None => {
                inferred = self.infer().ok_or("the type of what is empty must be given")?;
                &inferred
            }
        };
        let mismatch = || format!("value is not of type {kind:?}");
        Ok(match (self, kind) {
            (Self::Typed(own, node), _) => match own == kind {
                true => node.typed(Some(kind))?,
                false => return Err(mismatch()),
            },
            (Self::Bool(value), "b") => Value::Bool(*value),
            (Self::Number(text), _) => number(text, kind)?,
            (Self::Text(text), "s") => Value::String(text.clone()),
            (Self::Text(text), "o") if is_object_path(text) => Value::Path(text.clone()),
            (Self::Text(text), "g") if text.len() < 256 => Value::Signature(text.clone()),
            (Self::Bytes(bytes), "ay") => Value::Bytes(bytes.clone()),
            (Self::Variant(node), "v") => Value::Variant(Box::new(node.typed(None)?)),
            (Self::Array(nodes), _) => {
                let element = kind.strip_prefix('a').filter(|kind| !kind.is_empty());
                let element = element.ok_or_else(mismatch)?;
                let values: Result<Vec<_>, _> =
                    nodes.iter().map(|node| node.typed(Some(element))).collect();
                Value::Array(element.to_string(), values?)
            }
            (Self::Dictionary(entries), _) => {
                let inner = kind.strip_prefix("a{").and_then(|kind| kind.strip_suffix('}'));
                // The key of a dictionary entry has a basic type, whose signature is one letter.
                let (key, value) =
                    inner.and_then(|i| i.split_at_checked(1)).ok_or_else(mismatch)?;
                let entry = |(k, v): &(Self, Self)| {
                    let pair = (k.typed(Some(key))?, v.typed(Some(value))?);
                    Ok::<_, String>(Value::Entry(Box::new(pair)))
                };
                let values: Result<Vec<_>, _> = entries.iter().map(entry).collect();
                Value::Array(format!("{{{key}{value}}}"), values?)
            }
            _ => return Err(mismatch()),
        })
    }
}

fn is_object_path(text: &str) -> bool {
    text == "/"
        || text.strip_prefix('/').is_some_and(|rest| {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            rest.split('/').all(|part| !part.is_empty() && part.chars().all(word))
        })
}

/// Parses a number: hexadecimal if it begins with `0x`, octal if it begins with `0`, otherwise decimal.
fn number(text: &str, kind: &str) -> Result<Value, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x") {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let bad = || format!("cannot parse {text:?} as type {kind:?}");
    // Only one sign is allowed.
    if digits.starts_with(['+', '-']) {
        return Err(bad());
    }
    let text = format!("{sign}{digits}");
    macro_rules! parse {
        ($kind:ty, $variant:ident) => {
            Value::$variant(<$kind>::from_str_radix(&text, radix).map_err(|_| bad())?)
        };
    }
    Ok(match kind {
        "y" => parse!(u8, Byte),
        "n" => parse!(i16, Int16),
        "q" => parse!(u16, Uint16),
        "i" => parse!(i32, Int32),
        "u" => parse!(u32, Uint32),
        "x" => parse!(i64, Int64),
        "t" => parse!(u64, Uint64),
        "d" => Value::Double(text.parse().map_err(|_| bad())?),
        _ => return Err(bad()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_as_runc_reads_them() {
        let strings =
            |list: &[&str]| Value::Array("s".into(), list.iter().map(Value::text).collect());
        for (text, value) in [
            ("true", Value::Bool(true)),
            (" false ", Value::Bool(false)),
            ("5", Value::Int32(5)),
            ("-5", Value::Int32(-5)),
            ("0x10", Value::Int32(16)),
            ("010", Value::Int32(8)),
            ("1.5", Value::Double(1.5)),
            ("uint64 7", Value::Uint64(7)),
            ("@t 7", Value::Uint64(7)),
            ("byte 255", Value::Byte(255)),
            ("'a b'", Value::text("a b")),
            ("\"it's\\n\"", Value::text("it's\n")),
            ("'\\u00e4'", Value::text("ä")),
            ("objectpath '/a/b_1'", Value::Path("/a/b_1".into())),
            ("['x', \"y\"]", strings(&["x", "y"])),
            ("@as []", strings(&[])),
            ("b'a\\x00'", Value::Bytes(vec![b'a', 0, 0])),
            ("<uint32 3>", Value::Variant(Box::new(Value::Uint32(3)))),
            ("[1, uint32 2]", Value::Array("u".into(), vec![Value::Uint32(1), Value::Uint32(2)])),
        ] {
            assert_eq!(Value::parse(text), Ok(value), "{text}");
        }
        let dictionary = Value::parse("{'a': <1>, 'b': <'c'>}").unwrap();
        assert_eq!(dictionary.signature(), "a{sv}");
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for text in [
            "",
            "'",
            "'a",
            "tru",
            "yes",
            "[1",
            "[1 2]",
            "[1, 'a']",
            "[]",
            "{}",
            "byte 256",
            "uint32 -1",
            "1 2",
            "<1",
            "@s 5",
            "@u 'a'",
            "99999999999",
            "objectpath 'a'",
            "--1",
            "+-1",
            "1x",
            "b'\\x1'",
            "'\\u12'",
            "uint64",
            "@a 5",
            "@ 5",
            "{1}",
            "'\\u0000'",
        ] {
            assert!(Value::parse(text).is_err(), "{text:?}: {:?}", Value::parse(text));
        }
        assert!(Value::parse(&"[".repeat(10_000)).is_err());
        assert!(Value::parse(&"@s ".repeat(10_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[-+0-9a-z@'\"<>{}:,\\[\\]\\\\ .uxä]{0,40}") {
            let _ = Value::parse(&text);
        }
    }
}
