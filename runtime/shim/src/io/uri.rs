//! The names that containerd passes for standard streams: a path, or a URI with one of a few schemes.

use alloc::ffi::CString;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::Error;

/// The source or sink of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// No source or sink: the name is empty.
    Nothing,
    /// The file at this path: a FIFO created by containerd, or an existing file.
    Path(CString),
    /// A file to append to. It is created if missing.
    File(CString),
    /// A program that receives stdout and stderr.
    Logger(Logger),
}

/// A program that receives stdout and stderr.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Logger {
    /// The program's path.
    pub path: CString,
    /// The program's arguments: each key of the query, followed by its value.
    pub args: Vec<CString>,
    /// Whether the program writes a byte once it is ready (`binary-v2`, containerd 2.2). A program of the scheme
    /// `binary` closes the pipe instead.
    pub says_ready: bool,
}

impl Target {
    /// Parses a stream's name.
    ///
    /// # Errors
    /// An unknown scheme, an invalid path, an invalid escape.
    pub fn parse(uri: &str) -> Result<Self, Error> {
        let wrong = |what| Error::Uri { uri: uri.to_string(), what };
        if uri.is_empty() {
            return Ok(Self::Nothing);
        }
        let Some((scheme, rest)) = split_scheme(uri) else {
            let path = CString::new(uri).map_err(|_| wrong("a NUL in the path"))?;
            return Ok(Self::Path(path));
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // In a URI, the host is between the second and the third slash.
        let path = match path.strip_prefix("//") {
            Some(path) => path.find('/').and_then(|slash| path.get(slash..)).unwrap_or_default(),
            None => path,
        };
        let path = unescape(path, false).ok_or_else(|| wrong("an invalid %-escape"))?;
        let path = CString::new(path).map_err(|_| wrong("a NUL in the path"))?;
        if !path.as_bytes().starts_with(b"/") {
            return Err(wrong("not an absolute path"));
        }
        let logger = |path, says_ready| Logger { path, args: arguments(query), says_ready };
        match scheme.to_ascii_lowercase().as_str() {
            "fifo" => Ok(Self::Path(path)),
            "file" => Ok(Self::File(path)),
            "binary" => Ok(Self::Logger(logger(path, false))),
            "binary-v2" => Ok(Self::Logger(logger(path, true))),
            _ => Err(wrong("unknown scheme (known: fifo, file, binary, binary-v2)")),
        }
    }
}

/// Splits a URI into the scheme and the text after the colon (RFC 3986, 3.1); returns `None` for a plain path.
fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let begins = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    let goes_on = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (begins && goes_on).then_some((scheme, rest))
}

/// Converts the query to arguments: each key, followed by its first value. Invalid parts are skipped, as by Go's
/// parser.
fn arguments(query: &str) -> Vec<CString> {
    let mut keys: Vec<CString> = Vec::new();
    let mut args = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let read = |text| CString::new(unescape(text, true)?).ok();
        if let (Some(key), Some(value)) = (read(key), read(value))
            && !keys.contains(&key)
        {
            args.extend([key.clone(), value]);
            keys.push(key);
        }
    }
    args
}

/// Decodes percent escapes; in a query, also decodes plus signs to spaces.
fn unescape(text: &str, query: bool) -> Option<Vec<u8>> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            b'+' if query => b' ',
            byte => byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logger(path: &str, args: &[&str], says_ready: bool) -> Target {
        let text = |text: &&str| CString::new(*text).unwrap();
        let args = args.iter().map(text).collect();
        Target::Logger(Logger { path: text(&path), args, says_ready })
    }

    #[test]
    fn names_of_streams() {
        let path = |path: &str| CString::new(path).unwrap();
        for (uri, target) in [
            ("", Target::Nothing),
            (
                "/run/containerd/fifo/1/a-stdout",
                Target::Path(path("/run/containerd/fifo/1/a-stdout")),
            ),
            ("/a:b/c%20d", Target::Path(path("/a:b/c%20d"))),
            ("fifo:///a/b", Target::Path(path("/a/b"))),
            ("file:///a%20b/c", Target::File(path("/a b/c"))),
            ("file://host/a", Target::File(path("/a"))),
            ("FILE:/a", Target::File(path("/a"))),
            ("binary:///bin/log", logger("/bin/log", &[], false)),
            (
                "binary:///bin/log?id=1&x=a+b%2Bc&id=2&flag&bad=%zz&s=1;2",
                logger("/bin/log", &["id", "1", "x", "a b+c", "flag", ""], false),
            ),
            ("binary-v2:///bin/log?k=v#part", logger("/bin/log", &["k", "v"], true)),
        ] {
            assert_eq!(Target::parse(uri), Ok(target), "{uri}");
        }
    }

    #[test]
    fn what_is_no_stream() {
        for uri in
            ["npipe:///a", "file://", "file:a", "file:///%0", "file:///%00", "binary://", "/a\0b"]
        {
            assert!(matches!(Target::parse(uri), Err(Error::Uri { .. })), "{uri}");
        }
    }
}
