//! Figures of a row as arithmetic on the cells that it names:
//! `100 * (swap - plain) / plain`.

use std::fmt;

/// An arithmetic expression over named values: `+ - * /`, brackets, `min(..)`, `max(..)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Name(String),
    Negative(Box<Node>),
    Pair(Box<Node>, char, Box<Node>),
    Call(Fold, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    Min,
    Max,
}

/// How deep brackets may nest: deeper ones are a mistake, and would exhaust the stack.
const DEPTH: usize = 32;

/// How many values an expression may have: the tree of a sum is as deep as it has terms, and is walked by recursion.
const VALUES: usize = 256;

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong, with the place in the text.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let mut parser = Parser { text, at: 0, depth: 0, values: 0 };
        let parsed = parser.sum().and_then(|root| match parser.peek() {
            None => Ok(root),
            Some(other) => Err(format!("'{other}' is not expected")),
        });
        let root = parsed.map_err(|what| format!("figure '{text}', at {}: {what}", parser.at + 1))?;
        Ok(Expression { text: text.to_string(), root })
    }

    /// The value with those of the names; nothing where a name has none or the
    /// result is not finite.
    pub fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.root.value(of).filter(|value| value.is_finite())
    }

    /// The names in it, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.root.collect(&mut names);
        names
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Node {
    fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        Some(match self {
            Node::Number(number) => *number,
            Node::Name(name) => of(name)?,
            Node::Negative(inner) => -inner.value(of)?,
            Node::Pair(left, operator, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
            Node::Call(fold, parts) => {
                let values: Vec<f64> = parts.iter().map(|part| part.value(of)).collect::<Option<_>>()?;
                let pick = if *fold == Fold::Min { f64::min } else { f64::max };
                values.into_iter().reduce(pick)?
            }
        })
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Node::Number(_) => {}
            Node::Name(name) if names.contains(&name.as_str()) => {}
            Node::Name(name) => names.push(name),
            Node::Negative(inner) => inner.collect(names),
            Node::Pair(left, _, right) => {
                left.collect(names);
                right.collect(names);
            }
            Node::Call(_, parts) => parts.iter().for_each(|part| part.collect(names)),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|next| wanted.contains(next))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn sum(&mut self) -> Result<Node, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            left = Node::Pair(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut left = self.factor()?;
        while let Some(operator) = self.take(&['*', '/']) {
            left = Node::Pair(Box::new(left), operator, Box::new(self.factor()?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("brackets nest more than {DEPTH} deep"));
        }
        self.values += 1;
        if self.values > VALUES {
            return Err(format!("it has more than {VALUES} values; give parts of it names"));
        }
        let node = self.factor_inside();
        self.depth -= 1;
        node
    }

    fn factor_inside(&mut self) -> Result<Node, String> {
        if self.take(&['-']).is_some() {
            return Ok(Node::Negative(Box::new(self.factor()?)));
        }
        if self.take(&['(']).is_some() {
            let inner = self.sum()?;
            return self.close().map(|()| inner);
        }
        match self.peek() {
            None => Err("a number, a name or a bracket is missing".to_string()),
            Some(c) if c.is_ascii_digit() => {
                let word = self.word(|c| c.is_ascii_digit() || c == '.');
                word.parse().map(Node::Number).map_err(|_| format!("'{word}' is not a number"))
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let word = self.word(|c| c.is_ascii_alphanumeric() || c == '_').to_string();
                let fold = match word.as_str() {
                    "min" => Fold::Min,
                    "max" => Fold::Max,
                    _ => return Ok(Node::Name(word)),
                };
                self.call(fold)
            }
            Some(other) => Err(format!("'{other}' is not expected")),
        }
    }

    fn call(&mut self, fold: Fold) -> Result<Node, String> {
        self.take(&['(']).ok_or("a function needs its values in brackets")?;
        let mut parts = vec![self.sum()?];
        while self.take(&[',']).is_some() {
            parts.push(self.sum()?);
        }
        self.close().map(|()| Node::Call(fold, parts))
    }

    fn close(&mut self) -> Result<(), String> {
        self.take(&[')']).map(|_| ()).ok_or_else(|| "a closing bracket is missing".to_string())
    }

    fn word(&mut self, part: fn(char) -> bool) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let of = |name: &str| match name {
            "a" => Some(4.0),
            "b2" => Some(10.0),
            "zero" => Some(0.0),
            _ => None,
        };
        Expression::parse(text).unwrap().value(&of)
    }

    #[test]
    fn arithmetic_as_at_school() {
        assert_eq!(value("100 * (b2 - a) / a"), Some(150.0));
        assert_eq!(value("b2 - a - 1"), Some(5.0));
        assert_eq!(value("-a + 2 * 3.5"), Some(3.0));
        assert_eq!(value("min(a, b2, 5) / max(1, a)"), Some(1.0));
    }

    #[test]
    fn what_has_no_value_gives_none() {
        assert_eq!(value("a / c"), None);
        assert_eq!(value("a / zero"), None);
    }

    #[test]
    fn names_are_listed_once() {
        assert_eq!(Expression::parse("a / b + min(a, c)").unwrap().names(), ["a", "b", "c"]);
    }

    #[test]
    fn mistakes_are_placed() {
        for (text, place, what) in [
            ("a +", "at 4", "missing"),
            ("a b", "at 3", "'b'"),
            ("(a", "at 3", "closing"),
            ("1.2.3", "at 6", "not a number"),
            ("min a", "at 5", "brackets"),
            ("", "at 1", "missing"),
            ("a * ä", "at 5", "'ä'"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(place) && error.contains(what), "{text}: {error}");
        }
        assert!(Expression::parse(&"(".repeat(1000)).unwrap_err().contains("more than 32 deep"));
        let long = |terms: usize| Expression::parse(&["a"; 1_000_000][..terms].join(" + "));
        assert!(long(1_000_000).unwrap_err().contains("more than 256 values"));
        assert!(long(256).is_ok());
    }
}
