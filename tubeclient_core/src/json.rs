//! JSON texts, read value by value without a tree: a value is its place in the text until it is known what it becomes.
//!
//! It takes what RFC 8259 has, within bounds; None is "not mine".

use std::borrow::Cow;

/// The reference has more.
const MOST_DEPTH: usize = 64;
const MOST_FIELDS: usize = 100_000;
/// Of `Fields`, where a name that is there twice is found by looking at all.
const MOST_NAMES: usize = 64;
const MOST_NAME: usize = 50_000;
/// Characters of a number in a VARIANT, whose decimals have 38 digits.
const MOST_KEPT: usize = 38;
pub const MOST_NUMBER: usize = 1_000;

/// A value. Of a list and of an object only the beginning has been seen.
pub enum Node<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    List,
    Object,
}

#[derive(Clone)]
pub struct Json<'a> {
    text: &'a str,
    at: usize,
    /// Where the newest node begins.
    start: usize,
    depth: usize,
}

impl<'a> Json<'a> {
    pub fn of(text: &'a str) -> Self {
        Self { text, at: 0, start: 0, depth: 0 }
    }

    /// Where the newest node begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// None if something follows.
    pub fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    /// The text from `start` up to here.
    pub fn slice(&self, start: usize) -> Option<&'a str> {
        self.text.get(start..self.at)
    }

    pub fn node(&mut self) -> Option<Node<'a>> {
        self.space();
        self.start = self.at;
        Some(match self.peek()? {
            b'"' => Node::Text(self.string()?),
            b'{' => Node::Object,
            b'[' => Node::List,
            b'n' => self.word("null", Node::Null)?,
            b't' => self.word("true", Node::Bool(true))?,
            b'f' => self.word("false", Node::Bool(false))?,
            _ => Node::Number(self.number()?),
        })
    }

    /// Of the object that begins here, each name; `each` has to read the value behind it.
    pub fn object(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>) -> Option<()> {
        let mut left = MOST_FIELDS;
        self.items(b'{', b'}', |json| {
            left = left.checked_sub(1)?;
            json.space();
            let start = json.at;
            let name = json.string().filter(|_| json.at - start <= MOST_NAME)?;
            json.space();
            json.expect(b':')?;
            each(json, name)
        })
    }

    /// Of the list that begins here, each element, which `each` has to read.
    pub fn list(&mut self, each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.items(b'[', b']', each)
    }

    /// Passes a value, and gives it as it is written.
    pub fn raw(&mut self) -> Option<&'a str> {
        self.space();
        let start = self.at;
        self.skip(false)?;
        self.slice(start)
    }

    /// Passes a value. `unique`: it becomes a VARIANT, so no object in it may have a name twice, and numbers are those
    /// that stay as they are.
    pub fn skip(&mut self, unique: bool) -> Option<()> {
        self.space();
        self.start = self.at;
        if self.peek() == Some(b'"') {
            return self.skip_string();
        }
        let node = self.node()?;
        self.skip_rest(&node, unique)
    }

    /// Passes what is not yet seen of a node.
    pub fn skip_rest(&mut self, node: &Node<'_>, unique: bool) -> Option<()> {
        match node {
            Node::Object => {
                let mut names = Vec::new();
                self.object(|json, name| {
                    if unique {
                        names.push(name);
                    }
                    json.skip(unique)
                })?;
                distinct(names)
            }
            Node::List => self.list(|json| json.skip(unique)),
            Node::Number(text) if unique => is_kept(text).then_some(()),
            _ => Some(()),
        }
    }

    fn items(&mut self, open: u8, close: u8, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.space();
        self.expect(open)?;
        self.space();
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        if self.peek()? == close {
            self.at += 1;
        } else {
            loop {
                each(self)?;
                self.space();
                let byte = self.peek()?;
                self.at += 1;
                match byte {
                    b',' => (),
                    _ if byte == close => break,
                    _ => return None,
                }
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let found = self.peek()? == byte;
        self.at += 1;
        found.then_some(())
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Option<Node<'a>> {
        let found = self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes());
        self.at += word.len();
        found.then_some(node)
    }

    fn number(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.at += usize::from(self.peek()? == b'-');
        if self.peek()? == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek()?, b'+' | b'-'));
            self.digits()?;
        }
        self.slice(start).filter(|text| text.len() <= MOST_NUMBER)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Up to the next quote, escape or control character, and that one.
    #[expect(clippy::inline_always, reason = "all texts of JSON go through it")]
    #[inline(always)]
    fn run(&mut self) -> Option<(&'a str, u8)> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F))?;
        let run = self.text.get(self.at..self.at + length)?;
        self.at += length + 1;
        Some((run, *rest.get(length)?))
    }

    fn skip_string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.run()?.1 {
                b'"' => return Some(()),
                b'\\' => self.escaped()?,
                _ => return None,
            };
        }
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let mut before: Option<String> = None;
        loop {
            let (run, end) = self.run()?;
            match end {
                b'"' => {
                    return Some(match before {
                        None => Cow::Borrowed(run),
                        Some(text) => Cow::Owned(text + run),
                    });
                }
                b'\\' => {
                    let text = before.get_or_insert_default();
                    text.push_str(run);
                    text.push(self.escaped()?);
                }
                _ => return None,
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                if !(0xD800..0xDC00).contains(&first) {
                    return char::from_u32(u32::from(first));
                }
                self.expect(b'\\')?;
                self.expect(b'u')?;
                char::decode_utf16([first, self.unit()?]).next()?.ok()?
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let whole = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| u16::from_str_radix(digits, 16).ok())?
    }
}

/// Whether a VARIANT surely keeps a number: as a decimal.
fn is_kept(text: &str) -> bool {
    text.len() <= MOST_KEPT && !text.contains(['e', 'E'])
}

/// Whether a text needs no escapes between quotes.
pub fn is_bare(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F))
}

/// None if a name is there twice.
pub fn distinct(mut names: Vec<Cow<'_, str>>) -> Option<()> {
    names.sort_unstable();
    names.is_sorted_by(|one, next| one < next).then_some(())
}

/// The fields of an object as they are written. No name is there twice.
pub struct Fields<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Fields<'a> {
    pub fn of(text: &'a str) -> Option<Self> {
        let (mut json, mut found) = (Json::of(text), Vec::<(Cow<'a, str>, &'a str)>::with_capacity(16));
        json.object(|json, name| {
            let is_new = found.len() < MOST_NAMES && found.iter().all(|(one, _)| *one != name);
            found.push((name, json.raw()?));
            is_new.then_some(())
        })?;
        json.end()?;
        Some(Self(found))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn given(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, raw)| *raw)
    }

    /// None of null too.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        self.given(name).filter(|raw| *raw != "null")
    }

    /// A text, the digits of a number, or an empty one of anything else.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let Some(raw) = self.raw(name) else { return Some(Cow::default()) };
        Some(match Json::of(raw).node()? {
            Node::Text(text) => text,
            Node::Number(digits) => Cow::Borrowed(digits),
            _ => Cow::default(),
        })
    }

    /// The outer None is no whole number.
    pub fn number(&self, name: &str) -> Option<Option<i64>> {
        if self.raw(name).is_none() {
            return Some(None);
        }
        let text = self.text(name)?;
        let is_usual = !text.starts_with('+') && text.len() < 20;
        text.parse().ok().filter(|_| is_usual).map(Some)
    }
}
