//! The span that asked for a command: W3C Trace Context.

/// The environment variable that names it.
pub const VARIABLE: &str = "TRACEPARENT";

/// A trace, and the span in it that ours are children of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// 32 lower-case hexadecimal digits.
    pub trace: [u8; 32],
    /// 16 of them.
    pub span: [u8; 16],
}

impl Parent {
    /// Reads `00-TRACE-SPAN-FLAGS`, whatever the version but ff. Nothing if it is malformed, or if the flags
    /// say that the trace is not sampled.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim_ascii().split('-');
        let [version, trace, span, flags] =
            [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
        let all = [version, trace, span, flags];
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_sampled = flags.len() == 2 && u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        let is_good = all.iter().all(|field| field.bytes().all(digit))
            && version.len() == 2
            && version != "ff"
            && (version != "00" || fields.next().is_none())
            && [trace, span].iter().all(|id| id.bytes().any(|byte| byte != b'0'));
        let parent = Self {
            trace: trace.as_bytes().try_into().ok()?,
            span: span.as_bytes().try_into().ok()?,
        };
        (is_good && is_sampled).then_some(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn reads_a_parent() {
        let parent = Parent::parse(GOOD).unwrap();
        assert_eq!(&parent.trace, b"0af7651916cd43dd8448eb211c80319c");
        assert_eq!(&parent.span, b"b7ad6b7169203331");
        assert!(Parent::parse(&GOOD.replacen("00", "cc", 1)).is_some(), "a later version");
    }

    #[test]
    fn what_is_malformed_or_not_sampled_is_none() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(Parent::parse(bad), None, "{bad}");
        }
    }
}
