//! A forgiving reader of protobuf text: it gives the tree of what is written, with the place of everything, for files
//! that parse and for files that do not. It never fails, never recurses deeper than [`DEPTH_MAX`], and takes at least
//! one token per step. The strict parser decides what a file means; this tree says where.

/// Blocks inside blocks; deeper ones are read as part of the block around them. `ModelConfig` itself needs 7.
const DEPTH_MAX: usize = 32;

/// What one `{ … }`, or the whole file, holds.
#[derive(Debug, Default, PartialEq)]
pub(in super::super) struct Node {
    pub(in super::super) fields: Vec<Field>,
    /// Where a block without a name opens, as in a JSON file.
    pub(in super::super) nameless_block: Option<usize>,
}

/// `name: value`, `name { … }` or `name [ … ]`.
#[derive(Debug, PartialEq)]
pub(in super::super) struct Field {
    pub(in super::super) name: String,
    pub(in super::super) at: usize,
    /// The name is in quotes, as in JSON.
    pub(in super::super) quoted: bool,
    pub(in super::super) colon: bool,
    pub(in super::super) value: Value,
    pub(in super::super) value_at: usize,
}

#[derive(Debug, PartialEq)]
pub(in super::super) enum Value {
    Missing,
    Text(String),
    /// A number, an enum's name, true or false: as written.
    Word(String),
    Block(Node),
    List(Vec<(usize, Value)>),
}

impl Node {
    /// The values of field `name` in the order of the text, lists taken apart.
    pub(in super::super) fn values<'n>(&'n self, name: &str) -> Vec<(usize, &'n Value)> {
        let mut values = Vec::new();
        for field in self.fields.iter().filter(|field| field.name == name) {
            match &field.value {
                Value::List(elements) => values.extend(elements.iter().map(|(at, element)| (*at, element))),
                single => values.push((field.at, single)),
            }
        }
        values
    }

    /// Calls `visit` with the name and the value of every field that holds text, at whatever depth.
    pub(in super::super) fn visit_texts(&self, visit: &mut impl FnMut(&str, &str)) {
        for field in &self.fields {
            match &field.value {
                Value::Text(text) => visit(&field.name, text),
                Value::Block(node) => node.visit_texts(visit),
                Value::List(elements) => {
                    for (_, element) in elements {
                        if let Value::Block(node) = element {
                            node.visit_texts(visit);
                        }
                    }
                }
                Value::Missing | Value::Word(_) => {}
            }
        }
    }

    /// Where field `name` is first written.
    pub(in super::super) fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.at)
    }
}

/// Reads `text` as far as it can be read.
pub(in super::super) fn scan(text: &str) -> Node {
    let mut reader = Reader { tokens: tokens(text), next: 0, end: text.len() };
    let mut node = Node::default();
    reader.block(&mut node, 0);
    node
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Ident(String),
    Text(String),
    Number(String),
    Sign(char),
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, first)) = rest.next() {
        let mut take_while = |keep: fn(char) -> bool| {
            let mut end = at + first.len_utf8();
            while let Some((next, c)) = rest.next_if(|&(_, c)| keep(c)) {
                end = next + c.len_utf8();
            }
            text[at..end].to_owned()
        };
        let token = match first {
            c if c.is_whitespace() => continue,
            '#' => {
                take_while(|c| c != '\n');
                continue;
            }
            '"' | '\'' => Token::Text(quoted(&mut rest, first)),
            c if c.is_ascii_digit() || matches!(c, '-' | '.' | '+') => {
                Token::Number(take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_')))
            }
            c if c.is_alphabetic() || c == '_' => Token::Ident(take_while(|c| c.is_alphanumeric() || c == '_')),
            c => Token::Sign(c),
        };
        tokens.push((at, token));
    }
    tokens
}

/// The text up to the closing quote, or to the end of the line where it is missing. Escapes stay as written: texts are
/// only compared with names here.
fn quoted(rest: &mut std::iter::Peekable<std::str::CharIndices<'_>>, quote: char) -> String {
    let mut text = String::new();
    while let Some((_, c)) = rest.next_if(|&(_, c)| c != '\n') {
        match c {
            c if c == quote => break,
            '\\' => {
                text.push(c);
                text.extend(rest.next_if(|&(_, c)| c != '\n').map(|(_, c)| c));
            }
            c => text.push(c),
        }
    }
    text
}

struct Reader {
    tokens: Vec<(usize, Token)>,
    next: usize,
    end: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |(at, _)| *at)
    }

    fn take(&mut self) -> Option<(usize, Token)> {
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        token
    }

    fn take_sign(&mut self, signs: &[char]) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(sign)) if signs.contains(sign));
        self.next += usize::from(found);
        found
    }

    /// Fields up to the closing brace, which is taken, or to the end.
    fn block(&mut self, node: &mut Node, depth: usize) {
        while let Some((at, token)) = self.take() {
            match token {
                Token::Ident(name) => node.fields.push(self.field(name, at, depth)),
                Token::Text(name) => node.fields.push(Field { quoted: true, ..self.field(name, at, depth) }),
                Token::Sign('}' | '>') if depth > 0 => return,
                Token::Sign('{') if depth < DEPTH_MAX => {
                    node.nameless_block.get_or_insert(at);
                    self.block(node, depth + 1);
                }
                Token::Sign(_) | Token::Number(_) => {}
            }
        }
    }

    fn field(&mut self, name: String, at: usize, depth: usize) -> Field {
        let colon = self.take_sign(&[':']);
        let separated = colon || self.take_sign(&['=']);
        let value_at = self.at();
        let value = match self.peek() {
            // `a b: 1` is a field without a value and another field.
            Some(Token::Ident(_)) if !separated => Value::Missing,
            _ => self.value(depth),
        };
        Field { name, at, quoted: false, colon, value, value_at }
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.peek() {
            Some(Token::Sign('{' | '<')) if depth < DEPTH_MAX => {
                self.next += 1;
                let mut node = Node::default();
                self.block(&mut node, depth + 1);
                Value::Block(node)
            }
            Some(Token::Sign('[')) if depth < DEPTH_MAX => {
                self.next += 1;
                self.list(depth + 1)
            }
            Some(Token::Ident(word) | Token::Number(word)) => {
                let word = word.clone();
                self.next += 1;
                Value::Word(word)
            }
            Some(Token::Text(_)) => self.text(),
            Some(Token::Sign(_)) | None => Value::Missing,
        }
    }

    /// Neighbouring strings are one string.
    fn text(&mut self) -> Value {
        let mut whole = String::new();
        while let Some(Token::Text(part)) = self.peek() {
            whole.push_str(part);
            self.next += 1;
        }
        Value::Text(whole)
    }

    /// Elements up to the closing bracket, which is taken, or to a brace that closes a block further out.
    fn list(&mut self, depth: usize) -> Value {
        let mut elements = Vec::new();
        while !self.take_sign(&[']']) {
            match self.peek() {
                None | Some(Token::Sign('}' | '>')) => break,
                Some(Token::Sign('{' | '<' | '[')) if depth < DEPTH_MAX => {}
                Some(Token::Sign(_)) => {
                    self.next += 1;
                    continue;
                }
                Some(_) => {}
            }
            elements.push((self.at(), self.value(depth)));
        }
        Value::List(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(node: &Node) -> String {
        let fields: Vec<_> =
            node.fields.iter().map(|field| format!("{}={}", field.name, value(&field.value))).collect();
        fields.join(" ")
    }

    fn value(of: &Value) -> String {
        match of {
            Value::Missing => "?".to_owned(),
            Value::Text(text) => format!("{text:?}"),
            Value::Word(word) => word.clone(),
            Value::Block(node) => format!("({})", shown(node)),
            Value::List(elements) => {
                format!("[{}]", elements.iter().map(|(_, element)| value(element)).collect::<Vec<_>>().join(","))
            }
        }
    }

    #[test]
    fn everything_written_is_found_whatever_is_wrong_around_it() {
        let cases = [
            ("name: \"a\" max_batch_size: -8", "name=\"a\" max_batch_size=-8"),
            ("a: 1; b: 'x' \"y\", c { d: T }", "a=1 b=\"xy\" c=(d=T)"),
            ("a [ { b: 1 }, < b: 2 > ] dims: [ 1, -1 ]", "a=[(b=1),(b=2)] dims=[1,-1]"),
            ("a # { not a block\n: 1", "a=1"),
            ("a b: 1", "a=? b=1"),
            ("{ \"name\": \"a\" }", "name=\"a\""),
            ("} ] a: 1", "a=1"),
            ("a { b: 1", "a=(b=1)"),
            ("a { b: [ 1, 2 } c: 3", "a=(b=[1,2]) c=3"),
            ("a: \"open\nb: 1", "a=\"open\" b=1"),
            ("größe: 1 a = b", "größe=1 a=b"),
            ("a: \"\\\"\" b: 1e-3", "a=\"\\\\\\\"\" b=1e"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(&scan(text)), expected, "{text}");
        }
    }

    #[test]
    fn values_are_found_through_lists_and_repeats() {
        let node = scan("input [ {name: \"a\"}, {name: \"b\"} ]\ninput { name: \"c\" }");
        let names: Vec<_> = node.values("input").into_iter().map(|(at, v)| (at, value(v))).collect();
        let expected = [(8, "(name=\"a\")"), (21, "(name=\"b\")"), (35, "(name=\"c\")")];
        assert_eq!(names, expected.map(|(at, text)| (at, text.to_owned())));
        assert_eq!(node.position("output"), None);
    }

    #[test]
    fn depth_is_bounded() {
        for deep in ["a{", "[", "{", "a:[", "a<", "a:[{"] {
            scan(&deep.repeat(100_000));
        }
    }
}
