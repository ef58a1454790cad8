//! A correction, followed as a person would follow it: the fields it names are taken out of the configuration, and its
//! lines are put at the end.

/// `config` with `lines` in place of the fields they name; a line `# leave out x` takes x out.
pub(crate) fn paste(config: &str, lines: &[String]) -> String {
    let named = |line: &String| {
        let line = line.strip_prefix("# leave out ").unwrap_or(line);
        line.split([':', ' ']).next().filter(|name| !name.is_empty() && *name != "]").map(str::to_owned)
    };
    let fields: Vec<String> = lines.iter().filter_map(named).collect();
    let mut pasted = fields.iter().fold(config.to_owned(), |text, field| without(&text, field));
    for line in lines {
        pasted.push('\n');
        pasted.push_str(line);
    }
    pasted
}

/// The text without its top-level fields of this name.
fn without(text: &str, field: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = top_level(rest, field) {
        kept.push_str(&rest[..at]);
        let value = rest[at + field.len()..].trim_start_matches([':', ' ', '\n']);
        rest = &value[end_of_value(value)..];
    }
    kept + rest
}

/// Where the field starts, outside all brackets and quotes.
fn top_level(text: &str, field: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        let is_start = depth == 0 && !quoted && text[at..].starts_with(field);
        let before = text[..at].chars().next_back();
        let after = text[at..].chars().nth(field.chars().count());
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if is_start && !is_word(before) && !is_word(after) {
            return Some(at);
        }
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Where a value ends: after its last bracket, or at the next white space.
fn end_of_value(value: &str) -> usize {
    if !value.starts_with(['{', '[']) {
        return value.find(char::is_whitespace).unwrap_or(value.len());
    }
    let (mut depth, mut quoted) = (0, false);
    for (at, c) in value.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '{' | '[' if !quoted => depth += 1,
            '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + c.len_utf8();
        }
    }
    value.len()
}
