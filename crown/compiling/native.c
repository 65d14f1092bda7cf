/* Calls kernels of a library that was compiled ahead of time (see build.py), and says what the processor can do.

   A library has two symbols: `crown_stamp`, a text, and `crown_entries`, an array that ends with an empty name. An entry
   takes the words of all arguments one after the other (an array is its sizes, its address and its strides, as Numba
   hands it on), a place for the result, and a place for the exception. It returns 0 if there is none.

   Arrays are read through the fields of NumPy's arrays: the buffer protocol takes 0.1 us for each of them. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include <numpy/arrayobject.h>

typedef int32_t (*Entry)(const int64_t *words, void *result, void **raised);

typedef struct {
    const char *name, *parameters, *result;
    Entry entry;
} Listed;

typedef struct {
    const char *pickled;
    int32_t size;
} Raised; /* The beginning of Numba's structure. */

#define MOST_PARAMETERS 32
#define MOST_WORDS (9 * MOST_PARAMETERS)
#define MOST_RESULTS 8
#define MOST_VARIANTS 8

typedef struct {
    PyObject_HEAD
    PyObject *name, *names;
    Py_ssize_t count;
    int variants;
    const char *parameters[MOST_VARIANTS], *results[MOST_VARIANTS];
    Entry entries[MOST_VARIANTS];
} Kernel;

/* What a letter of a signature stands for. A capital allows read-only arrays, too. */
typedef struct {
    int type, dimensions;
    const char *said;
} Form;

static Form form_of(char letter) {
    switch (letter | 32) {
        case 'w': return (Form){NPY_INT64, 1, "int64[n]"};
        case 't': return (Form){NPY_INT64, 2, "int64[n, m]"};
        case 'h': return (Form){NPY_INT32, 1, "int32[n]"};
        case 'b': return (Form){NPY_UINT8, 1, "uint8[n]"};
        case 'f': return (Form){NPY_FLOAT64, 1, "float64[n]"};
        case 'g': return (Form){NPY_BOOL, 1, "bool[n]"};
        case 'i': return (Form){0, 0, "an integer"};
        case 'l': return (Form){0, 0, "a bool"};
        default: return (Form){0, 0, "None"};
    }
}

static int has_type(PyArrayObject *array, int wanted) {
    int found = PyArray_TYPE(array);
    /* int64 is `long` or `long long`: the same words. */
    return found == wanted || (wanted == NPY_INT64 && found == NPY_LONGLONG && sizeof(long) == 8);
}

/* Writes the words of an argument. Returns how many, or 0 if it is not what the letter stands for, or -1 on errors. */
static int words_of(PyObject *given, char letter, int64_t *words) {
    if (letter == 'n') {
        words[0] = 0;
        return given == Py_None;
    }
    if (letter == 'i' || letter == 'l') {
        PyObject *number;
        if (PyLong_Check(given)) {
            words[0] = PyLong_AsLongLong(given);
        } else if (PyIndex_Check(given) || PyArray_IsScalar(given, Bool)) {
            number = PyIndex_Check(given) ? PyNumber_Index(given) : PyNumber_Long(given);
            if (number == NULL) return -1;
            words[0] = PyLong_AsLongLong(number);
            Py_DECREF(number);
        } else {
            return 0;
        }
        if (words[0] == -1 && PyErr_Occurred()) return -1;
        if (letter == 'l') words[0] = words[0] != 0;
        return 1;
    }
    if (!PyArray_Check(given)) return 0;
    PyArrayObject *array = (PyArrayObject *)given;
    Form form = form_of(letter);
    int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | (letter & 32 ? NPY_ARRAY_WRITEABLE : 0);
    if (PyArray_NDIM(array) != form.dimensions || !has_type(array, form.type) || !PyArray_ISNOTSWAPPED(array) ||
        (PyArray_FLAGS(array) & flags) != flags)
        return 0;
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    int n = form.dimensions;
    int64_t items = 1;
    words[0] = words[1] = 0; /* Numba's owner and parent: kernels do not count references. */
    words[3] = PyArray_ITEMSIZE(array);
    words[4] = (int64_t)(intptr_t)PyArray_DATA(array);
    for (int d = 0; d < n; d++) {
        items *= shape[d];
        words[5 + d] = shape[d];
        words[5 + n + d] = strides[d];
    }
    words[2] = items;
    return 5 + 2 * n;
}

static PyObject *result_of(const char *letters, const char *at) {
    Py_ssize_t n = (Py_ssize_t)strlen(letters);
    PyObject *found[MOST_RESULTS];
    for (Py_ssize_t i = 0; i < n; i++) {
        switch (letters[i]) {
            case 'i': found[i] = PyLong_FromLongLong(*(const int64_t *)(at + 8 * i)); break;
            case 'd': found[i] = PyFloat_FromDouble(*(const double *)(at + 8 * i)); break;
            case 'l': found[i] = PyBool_FromLong(*(const char *)(at + 8 * i)); break;
            default: Py_INCREF(Py_None); found[i] = Py_None;
        }
        if (found[i] == NULL) {
            while (i--) Py_DECREF(found[i]);
            return NULL;
        }
    }
    if (n == 1) return found[0];
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (all == NULL) Py_DECREF(found[i]);
        else PyTuple_SetItem(all, i, found[i]);
    }
    return all;
}

/* Raises what the kernel raised: a pickled tuple of class, arguments and place. */
static PyObject *raise(const Raised *raised) {
    PyObject *pickle = PyImport_ImportModule("pickle"), *all = NULL;
    if (pickle != NULL && raised != NULL)
        all = PyObject_CallMethod(pickle, "loads", "y#", raised->pickled, (Py_ssize_t)raised->size);
    if (all != NULL && PyTuple_Check(all)) {
        PyErr_SetObject(PyTuple_GetItem(all, 0), PyTuple_GetItem(all, 1));
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "a kernel ended with an error that it did not name");
    }
    Py_XDECREF(all);
    Py_XDECREF(pickle);
    return NULL;
}

static PyObject *refuse(Kernel *self, PyObject *given, Py_ssize_t at, char letter) {
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(given), "__name__");
    if (type == NULL) return NULL;
    Form form = form_of(letter);
    const char *array = form.dimensions == 0 ? "" : letter & 32 ? "a writable C-contiguous array " : "a C-contiguous array ";
    PyErr_Format(PyExc_TypeError, "%U() takes for %U %s%s, not %U", self->name, PyTuple_GetItem(self->names, at), array,
                 form.said, type);
    Py_DECREF(type);
    return NULL;
}

static PyObject *kernel_call(PyObject *object, PyObject *given, PyObject *named) {
    Kernel *self = (Kernel *)object;
    int64_t words[MOST_WORDS];
    int64_t result[MOST_RESULTS];
    void *raised = NULL;
    if ((named != NULL && PyDict_Size(named)) || PyTuple_Size(given) != self->count)
        return PyErr_Format(PyExc_TypeError, "%U() takes %zd arguments by position", self->name, self->count);
    Py_ssize_t reached = -1;
    char wanted = 0;
    for (int v = 0; v < self->variants; v++) {
        const char *letters = self->parameters[v];
        Py_ssize_t at = 0;
        int64_t *next = words;
        for (; at < self->count; at++) {
            int more = words_of(PyTuple_GetItem(given, at), letters[at], next);
            if (more < 0) return NULL;
            if (more == 0) break;
            next += more;
        }
        if (at == self->count) {
            Entry entry = self->entries[v];
            PyThreadState *state = PyEval_SaveThread();
            int32_t status = entry(words, result, &raised);
            PyEval_RestoreThread(state);
            return status ? raise(raised) : result_of(self->results[v], (const char *)result);
        }
        if (at > reached) {
            reached = at;
            wanted = letters[at];
        }
    }
    return refuse(self, PyTuple_GetItem(given, reached), reached, wanted);
}

/* Kernel(name, names of its parameters, variants: tuples of parameters, result and address; see `entries`) */
static PyObject *kernel_new(PyTypeObject *type, PyObject *given, PyObject *named) {
    PyObject *name, *names, *variants;
    (void)named;
    if (!PyArg_ParseTuple(given, "UO!O!:Kernel", &name, &PyTuple_Type, &names, &PyTuple_Type, &variants)) return NULL;
    Py_ssize_t n = PyTuple_Size(variants), count = PyTuple_Size(names);
    if (n > MOST_VARIANTS || count > MOST_PARAMETERS)
        return PyErr_Format(PyExc_ValueError, "%U has too many variants or parameters", name);
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Kernel *self = (Kernel *)alloc(type, 0);
    if (self == NULL) return NULL;
    Py_INCREF(name);
    Py_INCREF(names);
    self->name = name;
    self->names = names;
    self->count = count;
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long parameters, result, entry;
        if (!PyArg_ParseTuple(PyTuple_GetItem(variants, i), "KKK", &parameters, &result, &entry)) {
            Py_DECREF(self);
            return NULL;
        }
        self->parameters[i] = (const char *)(uintptr_t)parameters;
        self->results[i] = (const char *)(uintptr_t)result;
        self->entries[i] = (Entry)(uintptr_t)entry;
        if (strlen(self->parameters[i]) != (size_t)count || strlen(self->results[i]) > MOST_RESULTS) {
            PyErr_Format(PyExc_ValueError, "%U has other parameters in the library", name);
            Py_DECREF(self);
            return NULL;
        }
        self->variants++;
    }
    return (PyObject *)self;
}

static void kernel_dealloc(PyObject *object) {
    Kernel *self = (Kernel *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->name);
    Py_XDECREF(self->names);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *kernel_repr(PyObject *object) {
    return PyUnicode_FromFormat("<compiled kernel %U>", ((Kernel *)object)->name);
}

static PyType_Slot kernel_slots[] = {
    {Py_tp_new, kernel_new},
    {Py_tp_dealloc, kernel_dealloc},
    {Py_tp_call, kernel_call},
    {Py_tp_repr, kernel_repr},
    {Py_tp_doc, "A kernel of a library: checks its arguments and calls it without the GIL."},
    {0, NULL},
};
static PyType_Spec kernel_spec = {"crown.compiling.native.Kernel", sizeof(Kernel), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kernel_slots};

/* Returns what is at an address of `crown_entries`: (name, parameters, result), then the addresses of these two texts
   and of the entry. */
static PyObject *entries(PyObject *module, PyObject *address) {
    (void)module;
    const Listed *listed = PyLong_AsVoidPtr(address);
    PyObject *found = listed == NULL ? NULL : PyList_New(0);
    if (found == NULL) return NULL;
    for (; listed->name != NULL; listed++) {
        PyObject *one = Py_BuildValue("sssKKK", listed->name, listed->parameters, listed->result,
                                      (unsigned long long)(uintptr_t)listed->parameters,
                                      (unsigned long long)(uintptr_t)listed->result,
                                      (unsigned long long)(uintptr_t)listed->entry);
        int failed = one == NULL || PyList_Append(found, one);
        Py_XDECREF(one);
        if (failed) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* Returns the processors for which libraries are built and that this one can stand in for, the best first. */
static PyObject *processors(PyObject *module, PyObject *none) {
    (void)module;
    (void)none;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int third = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                __builtin_cpu_supports("fma") && __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe") &&
                __builtin_cpu_supports("f16c");
    int fourth = third && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int second = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    if (fourth) return Py_BuildValue("(sss)", "x86-64-v4", "x86-64-v3", "x86-64-v2");
    if (third) return Py_BuildValue("(ss)", "x86-64-v3", "x86-64-v2");
    if (second) return Py_BuildValue("(s)", "x86-64-v2");
    return Py_BuildValue("()");
#elif defined(__aarch64__)
    return Py_BuildValue("(s)", "aarch64");
#else
    return Py_BuildValue("()");
#endif
}

static PyMethodDef methods[] = {
    {"entries", entries, METH_O, "Returns the entries of a library, from their address."},
    {"processors", processors, METH_NOARGS, "Returns names of processors whose code runs here, the best first."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "native", "Calls kernels that were compiled ahead of time.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_native(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition), *type = NULL;
    if (module == NULL) return NULL;
    if ((type = PyType_FromSpec(&kernel_spec)) == NULL || PyModule_AddObject(module, "Kernel", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
