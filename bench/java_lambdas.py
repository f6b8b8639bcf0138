"""Method references inside a JVM, made over py4j: what `Message::getData` is in Java source, without Java source.

LambdaMetafactory makes the class of each, as it does for javac. So Java's streams call them as fast as code from Java
source. py4j only builds the pipeline; no call goes over py4j for a pack or a message.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

__all__ = ["JavaLambdas"]

_OBJECTS = "[Ljava.lang.Object;"


class JavaLambdas:
    """Makes method references in the JVM whose py4j view is `jvm`."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._invoke = jvm.java.lang.invoke
        # A lookup with the rights of py4j's own code: public methods of the class path.
        self._lookup = self._invoke.MethodHandles.lookup()

    def class_of(self, name: str) -> Any:
        """The class of that full name; "long", "int", "boolean" and "void" are Java's primitive types."""
        lang = self._jvm.java.lang
        primitives = {"long": lang.Long, "int": lang.Integer, "boolean": lang.Boolean, "void": lang.Void}
        return primitives[name].TYPE if name in primitives else lang.Class.forName(name)

    def method(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        """The handle of an object's public method: its first argument is the object."""
        return self._lookup.findVirtual(self.class_of(owner), name, self._type(result, *arguments))

    def static(self, owner: str, name: str, result: str, *arguments: str) -> Any:
        """The handle of a class's public static method."""
        return self._lookup.findStatic(self.class_of(owner), name, self._type(result, *arguments))

    def constructor(self, owner: str, *arguments: str) -> Any:
        """The handle of a class's constructor."""
        return self._lookup.findConstructor(self.class_of(owner), self._type("void", *arguments))

    def reference(self, interface: str, handle: Any) -> Any:
        """`handle` as an object of `interface`, one of java.util.function."""
        return self._site(interface, handle, bind=False).invokeWithArguments(self._list([]))

    def bound_references(self, interface: str, handle: Any, *targets: Any) -> list[Any]:
        """For each target an object of `interface` that calls `handle` with the target as first argument."""
        made = self._site(interface, handle, bind=True)
        return [made.invokeWithArguments(self._list([target])) for target in targets]

    def proxy(self, interface: str, handle: Any) -> Any:
        """Any handle, arguments filled in or not, as an object of `interface`; slower: for calls per pack."""
        return self._instance(f"java.util.function.{interface}", handle)

    def listener(self, interface: str, handle: Any) -> Any:
        """An object of any interface whose methods all give their first argument to `handle`, and return nothing."""
        first = self.with_arguments(self._invoke.MethodHandles.arrayElementGetter(self.class_of(_OBJECTS)), 1, 0)
        # Its own arguments are the object, the method and the method's arguments.
        called = self.ignoring(self.chain(first, handle), 0, "java.lang.Object", "java.lang.reflect.Method")
        listener = self.class_of(interface)
        classes = self._array("java.lang.Class", listener)
        return self._jvm.java.lang.reflect.Proxy.newProxyInstance(
            listener.getClassLoader(), classes, self._instance("java.lang.reflect.InvocationHandler", called)
        )

    def ignoring(self, handle: Any, position: int, *arguments: str) -> Any:
        """`handle` with further arguments at `position` that it does not use."""
        types = self._list([self.class_of(one) for one in arguments])
        return self._invoke.MethodHandles.dropArguments(handle, position, types)

    def both(self, first: Any, second: Any) -> Any:
        """A handle that gives its argument to `first`, which returns nothing, and then to `second`."""
        return self._invoke.MethodHandles.foldArguments(second, first)

    def chain(self, *handles: Any) -> Any:
        """One handle that gives the result of each to the next."""
        return reduce(self._invoke.MethodHandles.filterReturnValue, handles)

    def of_one(self, handle: Any, first: Any, second: Any) -> Any:
        """A handle of one argument that calls `handle` with what `first` and `second` make of the argument."""
        both = self._invoke.MethodHandles.filterArguments(
            handle, 0, self._array("java.lang.invoke.MethodHandle", first, second)
        )
        single = both.type().dropParameterTypes(1, 2)
        twice = self._jvm.java.lang.reflect.Array.newInstance(self.class_of("int"), 2)  # holds zeros
        return self._invoke.MethodHandles.permuteArguments(both, single, twice)

    def as_type(self, handle: Any, result: str, *arguments: str) -> Any:
        """`handle` with casts to other types."""
        return handle.asType(self._type(result, *arguments))

    def identity(self, owner: str) -> Any:
        """A handle that returns its argument."""
        return self._invoke.MethodHandles.identity(self.class_of(owner))

    def with_arguments(self, handle: Any, position: int, *values: Any) -> Any:
        """`handle` with the arguments from `position` on filled in."""
        return self._invoke.MethodHandles.insertArguments(handle, position, self._array("java.lang.Object", *values))

    def _instance(self, interface: str, handle: Any) -> Any:
        return self._invoke.MethodHandleProxies.asInterfaceInstance(self.class_of(interface), handle)

    def _site(self, interface: str, handle: Any, *, bind: bool) -> Any:
        """A handle that makes objects of `interface` out of `handle`; it takes the target, if one is to be bound."""
        name = f"java.util.function.{interface}"
        [single] = [method for method in self.class_of(name).getMethods() if _is_abstract(method)]
        erased = self._invoke.MethodType.methodType(single.getReturnType(), single.getParameterTypes())
        actual = handle.type()
        if str(single.getReturnType()) == "void":  # what the handle returns is thrown away
            actual = actual.changeReturnType(single.getReturnType())
        made = self._invoke.MethodType.methodType(self.class_of(name))
        if bind:
            made = made.appendParameterTypes(self._classes(actual.parameterType(0)))
            actual = actual.dropParameterTypes(0, 1)
        site = self._invoke.LambdaMetafactory.metafactory(self._lookup, single.getName(), made, erased, handle, actual)
        return site.getTarget()

    def _type(self, result: str, *arguments: str) -> Any:
        classes = self._classes(*map(self.class_of, arguments))
        return self._invoke.MethodType.methodType(self.class_of(result), classes)

    def _classes(self, *items: Any) -> Any:
        return self._array("java.lang.Class", *items)

    def _array(self, kind: str, *items: Any) -> Any:
        array = self._jvm.java.lang.reflect.Array.newInstance(self.class_of(kind), len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def _list(self, items: list[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made


def _is_abstract(method: Any) -> bool:
    abstract = 0x400  # java.lang.reflect.Modifier.ABSTRACT
    return bool(method.getModifiers() & abstract)
