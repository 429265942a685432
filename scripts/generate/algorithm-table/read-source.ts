/**
 * What the sources of src/algorithms say about themselves: doc comments, exported functions, and options with defaults.
 *
 * Syntax only: files are parsed one by one, and types are found by name, which is unique within src/algorithms.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

export interface AlgorithmSources {
  /** The doc comment of an exported function, constant or type, or of the file itself for the name "". */
  readonly docOf: (file: string, name: string) => string;
  /** The options of an exported function, as in `gamma = 1`. */
  readonly optionsOf: (file: string, name: string) => string[];
  /** `file#name` of every exported function outside of recipes and what runs them. */
  readonly exportedFunctions: readonly string[];
}

type Named = ts.FunctionDeclaration | ts.VariableStatement | ts.InterfaceDeclaration | ts.TypeAliasDeclaration;

export function readSources(root: string): AlgorithmSources {
  const folder = join(root, "src/algorithms");
  const files = new Map(
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
      .toSorted()
      .map((file) => [file, parse(file, readFileSync(join(folder, file), "utf8"))]),
  );
  const types = new Map(
    [...files.values()]
      .flatMap((source) =>
        source.statements.filter((item) => ts.isInterfaceDeclaration(item) || ts.isTypeAliasDeclaration(item)),
      )
      .map((type) => [type.name.text, type]),
  );
  const find = (file: string, name: string): Named => {
    const found = files.get(file)?.statements.find((item): item is Named => isNamed(item, name));
    if (found === undefined) throw new Error(`src/algorithms/${file} has no declaration of ${name}.`);
    return found;
  };
  return {
    docOf: (file, name) => (name === "" ? headerOf(files.get(file)!) : docComment(find(file, name))),
    optionsOf: (file, name) => {
      const declaration = find(file, name);
      return ts.isFunctionDeclaration(declaration) ? optionsOf(declaration, types) : [];
    },
    exportedFunctions: [...files]
      .filter(([file]) => !/^(recipes|recipe-runner)\//.test(file))
      .flatMap(([file, source]) =>
        source.statements
          .filter((item) => ts.isFunctionDeclaration(item) && isExported(item))
          .map((item) => `${file}#${(item as ts.FunctionDeclaration).name?.text}`),
      ),
  };
}

function parse(file: string, text: string): ts.SourceFile {
  return ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true);
}

function isNamed(item: ts.Statement, name: string): boolean {
  if (ts.isVariableStatement(item))
    return item.declarationList.declarations.some(({ name: own }) => own.getText() === name);
  if (!ts.isFunctionDeclaration(item) && !ts.isInterfaceDeclaration(item) && !ts.isTypeAliasDeclaration(item))
    return false;
  return item.name?.text === name;
}

function isExported(item: ts.FunctionDeclaration): boolean {
  return item.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false;
}

/** The text of the last doc comment before a declaration, without stars and tags. */
function docComment(node: ts.Node): string {
  const comment = ts.getJSDocCommentsAndTags(node).findLast((part) => ts.isJSDoc(part));
  return comment === undefined ? "" : plainText(comment.getText()).split(/^@/m)[0]!.trim();
}

function headerOf(source: ts.SourceFile): string {
  return plainText(source.getFullText().match(/^\/\*\*[\s\S]*?\*\//)?.[0] ?? "");
}

function plainText(comment: string): string {
  return comment
    .replace(/^\/\*\*/, "")
    .replace(/\*\/$/, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd())
    .join("\n")
    .trim();
}

type Types = ReadonlyMap<string, ts.InterfaceDeclaration | ts.TypeAliasDeclaration>;

/** Members of the last parameter that is an object of options, with the defaults of its pattern; else the last number. */
function optionsOf(declaration: ts.FunctionDeclaration, types: Types): string[] {
  const parameter =
    declaration.parameters.findLast(isOptions) ??
    declaration.parameters.findLast(({ type }) => type?.kind === ts.SyntaxKind.NumberKeyword);
  if (parameter?.type === undefined) return [];
  if (parameter.type.kind === ts.SyntaxKind.NumberKeyword) return [parameter.name.getText()];
  const defaults = new Map(
    ts.isObjectBindingPattern(parameter.name)
      ? parameter.name.elements.map((item) => [(item.propertyName ?? item.name).getText(), item.initializer?.getText()])
      : [],
  );
  const names = [...new Set(membersOf(parameter.type, types))];
  return names.map((name) => (defaults.get(name) === undefined ? name : `${name} = ${defaults.get(name)}`));
}

function isOptions({ type }: ts.ParameterDeclaration): boolean {
  if (type === undefined) return false;
  if (ts.isTypeLiteralNode(type)) return true;
  return (
    ts.isTypeReferenceNode(type) &&
    /(Options|Bounds|Reduction|Correction|Controller|Estimator)$/.test(type.typeName.getText())
  );
}

function membersOf(type: ts.TypeNode, types: Types): string[] {
  if (ts.isTypeLiteralNode(type)) return type.members.map((member) => member.name?.getText() ?? "");
  if (ts.isUnionTypeNode(type)) return type.types.flatMap((part) => membersOf(part, types));
  if (!ts.isTypeReferenceNode(type)) return [];
  const found = types.get(type.typeName.getText());
  if (found === undefined) return [];
  if (ts.isTypeAliasDeclaration(found)) return membersOf(found.type, types);
  const inherited = (found.heritageClauses ?? []).flatMap(({ types: parents }) =>
    parents.flatMap((parent) => {
      const base = types.get(parent.expression.getText());
      return base !== undefined && ts.isInterfaceDeclaration(base) ? base.members.map(memberName) : [];
    }),
  );
  return [...inherited, ...found.members.map(memberName)];
}

function memberName(member: ts.TypeElement): string {
  return member.name?.getText() ?? "";
}
