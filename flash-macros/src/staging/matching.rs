//! `match` on numbers, `bool` and tuples of them: a chain of `if`.

use super::Stager;
use super::expression::own;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Arm, Expr, ExprMatch, ExprRange, Index, Pat, RangeLimits};

impl Stager<'_> {
    pub(super) fn matched(&mut self, expression: &ExprMatch) -> TokenStream {
        let staging = self.staging;
        let value = self.value(&expression.expr);
        let matched = own("matched").into_token_stream();
        let chain = self.arms(&expression.arms, &matched);
        quote_spanned! {expression.span()=> {
            let #matched = #staging::Value::named(#value, "m");
            #chain
        }}
    }

    fn arms(&mut self, arms: &[Arm], value: &TokenStream) -> TokenStream {
        let staging = self.staging;
        let Some((arm, rest)) = arms.split_first() else {
            return quote!(#staging::never());
        };
        self.scope.enter();
        let mut bindings = Vec::new();
        let condition = self.condition(&arm.pat, value, &mut bindings);
        let guard = arm.guard.as_ref().map(|(_, guard)| self.value(guard));
        let body = self.value(&arm.body);
        self.scope.leave();
        let body = quote!({ #(#bindings)* #body });
        // rustc has checked the first function: the last arm takes what is left.
        if guard.is_none() && (condition.is_none() || rest.is_empty()) {
            return body;
        }
        let condition = condition.unwrap_or_else(|| quote!(#staging::literal(true)));
        let condition = match guard {
            None => condition,
            Some(guard) => quote!(#staging::and(#condition, || { #(#bindings)* #guard })),
        };
        let otherwise = self.arms(rest, value);
        quote_spanned!(arm.span()=> #staging::branch(#condition, || #body, || #otherwise))
    }

    /// When a pattern fits a value; `None`: always.
    fn condition(
        &mut self,
        pattern: &Pat,
        value: &TokenStream,
        bindings: &mut Vec<TokenStream>,
    ) -> Option<TokenStream> {
        let staging = self.staging;
        let now = quote!(#staging::Value::read(&#value));
        match pattern {
            Pat::Wild(_) => None,
            Pat::Paren(paren) => self.condition(&paren.pat, value, bindings),
            Pat::Ident(name) if name.ident.to_string().starts_with(char::is_uppercase) => {
                Some(quote_spanned!(name.span()=> #staging::eq(#now, #staging::constant(#name))))
            }
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                self.scope.add(&name.ident);
                let name = &name.ident;
                bindings.push(quote!(let #name = #now;));
                None
            }
            Pat::Lit(literal) => {
                let literal = self.value(&Expr::Lit(literal.clone()));
                Some(quote_spanned!(pattern.span()=> #staging::eq(#now, #literal)))
            }
            Pat::Path(path) => {
                Some(quote_spanned!(pattern.span()=> #staging::eq(#now, #staging::constant(#path))))
            }
            Pat::Range(range) => self.within(range, &now),
            Pat::Or(or) => {
                let mut cases = or.cases.iter().map(|case| self.condition(case, value, bindings));
                let first = cases.next()??;
                let rest: Option<Vec<TokenStream>> = cases.collect();
                Some(rest?.into_iter().fold(first, |all, case| quote!(#staging::or(#all, || #case))))
            }
            Pat::Tuple(tuple) => {
                let parts = tuple.elems.iter().enumerate().filter_map(|(at, part)| {
                    let at = Index::from(at);
                    self.condition(part, &quote!(#value.#at), bindings)
                });
                let parts: Vec<TokenStream> = parts.collect();
                parts.into_iter().reduce(|all, part| quote!(#staging::and(#all, || #part)))
            }
            other => {
                self.refuse(other, "the patterns of `match` are literals, constants, ranges, tuples of them, names and `_`; write `if`");
                None
            }
        }
    }

    fn within(&mut self, range: &ExprRange, value: &TokenStream) -> Option<TokenStream> {
        let staging = self.staging;
        let begin = range.start.as_ref().map(|begin| {
            let begin = self.value(begin);
            quote!(#staging::ge(#value, #begin))
        });
        let operator = match range.limits {
            RangeLimits::HalfOpen(_) => quote!(lt),
            RangeLimits::Closed(_) => quote!(le),
        };
        let end = range.end.as_ref().map(|end| {
            let end = self.value(end);
            quote!(#staging::#operator(#value, #end))
        });
        match (begin, end) {
            (Some(begin), Some(end)) => Some(quote!(#staging::and(#begin, || #end))),
            (begin, end) => begin.or(end),
        }
    }
}
