use super::*;

/// Returns the definitions as `line kind container.name`.
fn definitions(language: SourceLanguage, text: &str) -> Vec<String> {
    find_definitions(text, language)
        .iter()
        .map(|found| match found.container {
            Some(container) => format!(
                "{} {} {container}.{}",
                found.line,
                found.kind.name(),
                found.name
            ),
            None => format!("{} {} {}", found.line, found.kind.name(), found.name),
        })
        .collect()
}

#[test]
fn definitions_of_rust() {
    let text = r##"
mod inner {
    pub const MAX: usize = 1;
    static mut STATE: u8 = b'{';
    /* struct Not; /* nested */ */
    pub(crate) struct Point<'a, const N: usize> { x: &'a str }
    impl<'a, const N: usize> Point<'a, N> {
        pub const fn new() -> Self { let c = '{'; let s = "fn no() {"; let r = r#"fn "no"() {"#; todo!() }
    }
    impl std::fmt::Display for Point<'_, 3> where Self: Sized { fn fmt(&self) {} }
}
trait Shape: Sized { type Unit; fn area(&self) -> f64; }
macro_rules! shape { ($n:ident) => { struct $n; } }
fn outer(f: impl Fn() -> u8) -> impl Iterator { const LOCAL: u8 = 1; fn nested() {} }
"##;
    assert_eq!(
        definitions(SourceLanguage::Rust, text),
        [
            "2 module inner",
            "3 constant inner.MAX",
            "4 variable inner.STATE",
            "6 struct inner.Point",
            "8 method Point.new",
            "10 method Point.fmt",
            "12 trait Shape",
            "12 type Shape.Unit",
            "12 method Shape.area",
            "13 macro shape",
            "14 function outer",
            "14 function outer.nested",
        ]
    );
}

#[test]
fn definitions_of_typescript() {
    let text = r"
export interface Shape { area(): number }
type Id<T> = string | T;
export enum Color { Red }
export const LIMIT = 10;
export const half = async (n: number): Promise<number> => n / 2;
const re = /class No { /g;
export abstract class Box<T> extends Base implements Shape {
  private static count = 0;
  constructor(readonly w: number) { super(); if (w) { call(w); } }
  get size(): number { return `${ {a: 1}.a } class No {`.length; }
  handler = (e: Event) => { };
  async *items<T>(x: T) { yield x }
}
function* gen() { }
namespace Util { export function help() {} }
Box.prototype.extra = function () {};
";
    assert_eq!(
        definitions(SourceLanguage::TypeScript, text),
        [
            "2 interface Shape",
            "2 method Shape.area",
            "3 type Id",
            "4 enum Color",
            "5 constant LIMIT",
            "6 function half",
            "7 constant re",
            "8 class Box",
            "10 method Box.constructor",
            "11 method Box.size",
            "12 method Box.handler",
            "13 method Box.items",
            "15 function gen",
            "16 module Util",
            "16 function Util.help",
            "17 method Box.extra",
        ]
    );
}

#[test]
fn definitions_of_python() {
    let text = "
LIMIT = 3
class Shape(Base):
    '''class Not: pass'''
    sides: int = 4
    @property
    def area(self):
        local = 1
        def inner(): pass
    async def load(self): pass
def top(a=1,
        b=2):
    return a == b
";
    assert_eq!(
        definitions(SourceLanguage::Python, text),
        [
            "2 constant LIMIT",
            "3 class Shape",
            "5 variable Shape.sides",
            "7 method Shape.area",
            "9 function area.inner",
            "10 method Shape.load",
            "11 function top",
        ]
    );
}

#[test]
fn definitions_of_go_and_zig() {
    let go = "
package x
const (
\tA = iota
\tB
)
type Server[T any] struct { name string }
type Handler interface { Serve() }
func (s *Server[T]) Run(f func()) error { func() {}(); return nil }
func main() { var local = `func No() {` }
";
    assert_eq!(
        definitions(SourceLanguage::Go, go),
        [
            "4 constant A",
            "5 constant B",
            "7 struct Server",
            "8 interface Handler",
            "9 method Server.Run",
            "10 function main",
        ]
    );
    let zig = "
pub const Point = struct {
    pub fn len(self: Point) f32 { const a = 1; }
};
const limit: u32 = 3;
fn main() void {}
";
    assert_eq!(
        definitions(SourceLanguage::Zig, zig),
        [
            "2 struct Point",
            "3 method Point.len",
            "5 constant limit",
            "6 function main"
        ]
    );
}

#[test]
fn definitions_of_c_and_cpp() {
    let c = r#"
#define MAX(a) \
    (a)
typedef struct node { int x; } node_t;
enum color { RED };
static int counter = 0;
int add(int a, int b);
#ifdef A
int add(int a, int b) {
#else
int add(int a, int b) { if (a) {}
#endif
  char c = '{'; return a; }
"#;
    assert_eq!(
        definitions(SourceLanguage::C, c),
        [
            "2 macro MAX",
            "4 struct node",
            "4 type node_t",
            "5 enum color",
            "6 variable counter",
            "9 function add",
            "11 function add",
        ]
    );
    let cpp = r#"
namespace geo {
template <class T> class Shape : public Base {
 public:
  explicit Shape(int n) : n_(n) {}
  virtual double area() const noexcept override { return R"(class No {)"; }
  ~Shape() {}
};
using Id = int;
}
double geo::Circle::area() const { return [] { return 1; }(); }
"#;
    assert_eq!(
        definitions(SourceLanguage::Cpp, cpp),
        [
            "2 module geo",
            "3 class geo.Shape",
            "5 method Shape.Shape",
            "6 method Shape.area",
            "9 type geo.Id",
            "11 method Circle.area",
        ]
    );
}

#[test]
fn definitions_of_java_csharp_and_kotlin() {
    let java = r#"
package a.b;
@Entity(name = "x")
public class Order<T> extends Base {
    public static final int LIMIT = 3;
    @Override public String name() throws IOException { return new Thing() { void run() {} }.toString(); }
    abstract void later(int a);
    interface Part { void part(); }
    enum Kind { A, B }
}
record Point(int x) {}
"#;
    assert_eq!(
        definitions(SourceLanguage::Java, java),
        [
            "4 class Order",
            "5 constant Order.LIMIT",
            "6 method Order.name",
            "7 method Order.later",
            "8 interface Order.Part",
            "8 method Part.part",
            "9 enum Order.Kind",
            "11 struct Point",
        ]
    );
    let csharp = r#"
namespace App.Core {
public class Order {
    public int Size { get; set; }
    public string Path => @"C:\";
    public Order(int n) { }
    public Task<int> Run<T>(T x) where T : class { return null; }
}
}
"#;
    assert_eq!(
        definitions(SourceLanguage::CSharp, csharp),
        [
            "2 module App",
            "2 module Core",
            "3 class Core.Order",
            "4 property Order.Size",
            "5 property Order.Path",
            "6 method Order.Order",
            "7 method Order.Run",
        ]
    );
    let kotlin = r#"
const val LIMIT = 1
data class Point(val x: Int)
class Shape {
    val name: String = "fun no() { ${ "}" }"
    fun area(): Int { val local = 1; return local }
    companion object { fun make() = Shape() }
}
fun <T> List<T>.second(): T = this[1]
"#;
    assert_eq!(
        definitions(SourceLanguage::Kotlin, kotlin),
        [
            "2 constant LIMIT",
            "3 class Point",
            "4 class Shape",
            "5 property Shape.name",
            "6 method Shape.area",
            "7 method Shape.make",
            "9 function List.second",
        ]
    );
}

#[test]
fn definitions_of_ruby_php_swift_and_shell() {
    let ruby = "
module Geo
  class Shape < Base
    LIMIT = 3
    def area?
      text = \"def no #{x + \"}\"}\"
    end
    def self.make; end
  end
end
=begin
def no; end
=end
def top
  <<~EOT
    def no
  EOT
end
";
    assert_eq!(
        definitions(SourceLanguage::Ruby, ruby),
        [
            "2 module Geo",
            "3 class Geo.Shape",
            "4 constant Shape.LIMIT",
            "5 method Shape.area?",
            "8 method Shape.make",
            "14 function top",
        ]
    );
    let php = "<p>function no() {</p>
<?php
namespace App\\Models;
abstract class Order extends Base {
    const LIMIT = 1;
    public function total(): int { $f = function () {}; return Foo::class; }
}
function helper() { return new class { function inner() {} }; }
?>
function no() {}
";
    assert_eq!(
        definitions(SourceLanguage::Php, php),
        [
            "3 module Models",
            "4 class Order",
            "5 constant Order.LIMIT",
            "6 method Order.total",
            "8 function helper",
            "8 method helper.inner",
        ]
    );
    let swift = "
protocol Shape { func area() -> Int }
struct Box: Shape {
    let name: String
    init(n: Int) { let local = 1 }
    func area() -> Int { return \"func no() { \\( \"}\" )\".count }
}
extension Box { static func make() {} }
";
    assert_eq!(
        definitions(SourceLanguage::Swift, swift),
        [
            "2 interface Shape",
            "2 method Shape.area",
            "3 struct Box",
            "4 property Box.name",
            "5 method Box.init",
            "6 method Box.area",
            "8 method Box.make",
        ]
    );
    let shell = "
start() {
  cat <<EOF
no() {
EOF
  echo ${#list[@]} # stop() {
}
function stop { :; }
my-name() { :; }
";
    assert_eq!(
        definitions(SourceLanguage::Shell, shell),
        ["2 function start", "8 function stop", "9 function my-name"]
    );
}
